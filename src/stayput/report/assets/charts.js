// Charts of rounds, drawn by uPlot: lines, dots and bars with a crosshair, a tip, and a legend of buttons.
//
// Shared by the report (inlined) and the live page (served). Colours are the page's CSS variables, so that charts
// follow the reader's light or dark mode. Texts reach the page through textContent alone: a run may be called anything.
// Keyboard: a focused chart moves its crosshair with the arrow keys, Home and End; the tip is then read out.
"use strict";

var stayputCharts = (function () {
  const drawn = new Set();
  const MOST_IN_TIP = 8;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function seriesColour(number) {
    return colour("--series-" + (number % 7));
  }

  function trimmed(value, digits) {
    return value.toFixed(digits).replace(/\.?0+$/, "");
  }

  function four(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  }

  function seconds(value) {
    if (value === 0) return "0 s";
    if (value < 0.0995) return trimmed(1000 * value, 1) + " ms";
    if (value < 60) return trimmed(value, value < 10 ? 2 : 1) + " s";
    const whole = Math.round(value);
    if (whole < 3600) return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
    return Math.floor(whole / 3600) + " h " + Math.round((whole % 3600) / 60) + " min";
  }

  function bytes(value) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let step = 0;
    while (value >= 1000 && step < units.length - 1) {
      value /= 1000;
      step += 1;
    }
    return Number(value.toPrecision(3)) + " " + units[step];
  }

  const SAID = {
    percent: (value) => trimmed(100 * value, 2) + "%",
    number: four,
    seconds: seconds,
    bytes: bytes,
    count: (value) => Number(value.toFixed(1)).toLocaleString("en-US"),
  };

  function said(unit, value) {
    return value === null || value === undefined ? "—" : SAID[unit](value);
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function keyOf(line) {
    const key = element("span", "key" + (line.dots ? " dot" : line.bars ? " bar" : ""));
    const paint = "var(--series-" + (line.colour % 7) + ")";
    const dash = line.bars || line.dots ? null : dashOf(line);
    const on = dash ? Math.min(dash[0], 5) : 0;
    key.style.background = dash ? `repeating-linear-gradient(90deg, ${paint} 0 ${on}px, transparent ${on}px ${on + 3}px)` : paint;
    if (line.faint) key.style.opacity = "0.4";
    return key;
  }

  function joined(spec) {
    if (!spec.lines.length) return [[0], [null]];
    return uPlot.join(spec.lines.map((line) => [line.x, line.y]));
  }

  function dashOf(line) {
    const dashes = [null, [7, 4], [2, 3], [9, 3, 2, 3]];
    return line.dashed ? dashes[1] : dashes[Math.floor(line.colour / 7) % dashes.length];
  }

  function seriesOf(line, xs) {
    const paint = () => seriesColour(line.colour);
    const few = line.x.length <= 24;
    const series = {
      label: line.label,
      stroke: paint,
      width: line.faint ? 1 : 2,
      alpha: line.faint ? 0.4 : 1,
      spanGaps: !line.dots,
      points: { show: (line.dots || few) && !line.faint && !line.bars, size: line.dots ? 10 : 5, fill: paint },
    };
    const dash = dashOf(line);
    if (dash) series.dash = dash;
    if (line.dots) series.paths = () => null;
    if (line.bars) {
      series.paths = uPlot.paths.bars({ size: [0.7, 80] });
      series.fill = () => seriesColour(line.colour) + "b0";
    }
    return series;
  }

  function targetPlugin(chart) {
    return {
      hooks: {
        draw: (u) => {
          const target = chart.spec.target;
          if (target === null || target === undefined) return;
          const y = u.valToPos(target, "y", true);
          const { left, top, width, height } = u.bbox;
          if (y < top || y > top + height) return;
          const ctx = u.ctx;
          ctx.save();
          ctx.strokeStyle = colour("--muted");
          ctx.fillStyle = colour("--muted");
          ctx.lineWidth = uPlot.pxRatio;
          ctx.setLineDash([5 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
          ctx.beginPath();
          ctx.moveTo(left, y);
          ctx.lineTo(left + width, y);
          ctx.stroke();
          ctx.font = 12 * uPlot.pxRatio + "px system-ui, sans-serif";
          const above = y - top > 16 * uPlot.pxRatio;
          ctx.textAlign = "left"; // curves rise to the right
          ctx.textBaseline = above ? "bottom" : "top";
          ctx.fillText(chart.spec.target_label || "target", left + 4 * uPlot.pxRatio, y + (above ? -3 : 4) * uPlot.pxRatio);
          ctx.restore();
        },
      },
    };
  }

  function xSaid(spec, value) {
    if (spec.categories) return spec.categories[value] || "";
    return spec.x_unit === "count" ? spec.x_label + " " + said("count", value) : spec.x_label + " " + four(value);
  }

  // The lines nearest to the pointer, by the latest value at or before it: lines need not share their rounds.
  function nearest(u, spec, at) {
    const found = [];
    spec.lines.forEach((line, number) => {
      if (!u.series[number + 1].show) return;
      const values = u.data[number + 1];
      let place = at;
      const exact = line.dots || line.bars;
      while (place >= 0 && (values[place] === null || values[place] === undefined)) place -= exact ? place + 1 : 1;
      if (place < 0 || (line.x.length && u.data[0][at] > line.x[line.x.length - 1])) return;
      const distance = u.cursor.top >= 0 ? Math.abs(u.valToPos(values[place], "y") - u.cursor.top) : number;
      found.push({ line, value: values[place], distance });
    });
    const shown = new Set([...found].sort((a, b) => a.distance - b.distance).slice(0, MOST_IN_TIP));
    return { rows: found.filter((row) => shown.has(row)), hidden: found.length - shown.size };
  }

  function showTip(u, chart) {
    const at = u.cursor.idx;
    const tip = chart.tip;
    if (at === null || at === undefined || u.cursor.left < 0) {
      tip.hidden = true;
      return;
    }
    const { rows, hidden } = nearest(u, chart.spec, at);
    const parts = [element("div", "tip-x", xSaid(chart.spec, u.data[0][at]))];
    for (const { line, value } of rows) {
      const row = element("div", "tip-row");
      row.append(keyOf(line), element("span", "tip-name", line.label), element("span", "tip-value", said(chart.spec.y_unit, value)));
      parts.push(row);
    }
    if (hidden) parts.push(element("div", "tip-more", "and " + hidden + " more"));
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const left = u.over.offsetLeft + u.cursor.left;
    const right = left > chart.plot.clientWidth / 2;
    tip.style.left = (right ? left - tip.offsetWidth - 14 : left + 14) + "px";
    tip.style.top = u.over.offsetTop + 6 + "px";
  }

  function optionsFor(chart) {
    const spec = chart.spec;
    const size = sizeOf(chart);
    const muted = () => colour("--muted");
    const grid = () => colour("--grid");
    const narrow = size.width < 480;
    const percentLow = spec.y_unit === "percent";
    const whole = spec.x_unit === "count" && !spec.x_log;
    return {
      width: size.width,
      height: size.height,
      pxAlign: 0,
      legend: { show: false },
      padding: [10, 14, 0, 0],
      cursor: {
        y: false,
        points: { size: 8 },
        focus: { prox: spec.lines.length > 2 ? 24 : -1 },
        drag: { x: true, y: false, dist: 8 },
      },
      focus: { alpha: 0.25 },
      scales: {
        x: {
          time: false,
          distr: spec.x_log ? 3 : 1,
          range: (u, low, high) => xRange(spec, low, high),
        },
        y: {
          distr: spec.y_log ? 3 : 1,
          range: (u, low, high) => (chart.zoomed || spec.y_log ? freeRange(spec, low, high) : fixedRange(spec, low, high)),
        },
      },
      axes: [
        {
          stroke: muted,
          grid: { show: false },
          ticks: { stroke: grid, width: 1, size: 4 },
          font: "12px system-ui, sans-serif",
          label: spec.categories ? spec.x_label : spec.x_label,
          labelFont: "12px system-ui, sans-serif",
          labelSize: 20,
          size: 30,
          space: narrow ? 56 : 72,
          ...(spec.x_log ? { splits: (u) => logSplits(u, spec, narrow ? 4 : 10), filter: (u, splits) => splits } : {}),
          ...(whole ? { incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 1e4, 2e4, 5e4, 1e5, 1e6] } : {}),
          values: (u, splits) => splits.map((value) => (value === null ? "" : spec.categories ? spec.categories[value] || "" : spec.x_log ? four(value) : said(spec.x_unit, value))),
        },
        {
          stroke: muted,
          grid: { stroke: grid, width: 1 },
          ticks: { show: false },
          border: { show: false },
          font: "12px system-ui, sans-serif",
          size: (u, values) => 12 + 7 * Math.max(3, ...(values || []).map((text) => String(text).length)),
          space: 34,
          ...(spec.y_log ? { splits: (u, axis, low, high) => logTicks(low, high), filter: (u, splits) => splits } : {}),
          values: (u, splits) => splits.map((value) => (value === null || (percentLow && value > 1.0001) ? "" : said(spec.y_unit, value))),
        },
      ],
      series: [{}, ...spec.lines.map((line) => seriesOf(line))],
      plugins: [targetPlugin(chart)],
      hooks: {
        setCursor: [(u) => showTip(u, chart)],
        setSelect: [(u) => (chart.zoomed = u.select.width > 0)],
      },
    };
  }

  // On a logarithmic axis, the values that were measured are the ones worth naming.
  function logSplits(u, spec, most) {
    const seen = [...new Set(spec.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const step = Math.ceil(seen.length / most);
    return seen.filter((value, place) => place % step === 0 && value >= u.scales.x.min && value <= u.scales.x.max);
  }

  // Round values between two, as ticks of a logarithmic axis. The library's own walk from a value that is no power of
  // ten, and where rounding takes a step back it walks for ever.
  function logTicks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const digit of [1, 2, 5]) found.push(Number(digit + "e" + power));
    }
    const inside = found.filter((value) => value >= low && value <= high);
    const whole = inside.filter((value) => String(value.toExponential())[0] === "1");
    return whole.length >= 3 ? whole : inside.length ? inside : [low, high];
  }

  function xRange(spec, low, high) {
    if (low === null) return [0, 1];
    if (spec.bars || spec.categories) return [-0.6, (spec.categories || [0]).length - 0.4];
    if (low === high) return spec.x_log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    if (spec.x_log) return [low / 1.15, high * 1.15];
    return [low, high];
  }

  function fixedRange(spec, low, high) {
    const known = spec.low !== null && spec.high !== null;
    if (known) return [spec.low, spec.high];
    if (low === null) return [0, 1];
    const bottom = spec.low !== null ? spec.low : low;
    const pad = 0.08 * (high - bottom) || Math.abs(high) * 0.1 || 1;
    return [spec.low !== null ? spec.low : bottom - pad, high + pad];
  }

  function freeRange(spec, low, high) {
    if (low === null) return [spec.y_log ? 0.1 : 0, 1];
    if (spec.y_log) return [low / 1.25, high * 1.25];
    const pad = 0.08 * (high - low) || Math.abs(high) * 0.05 || 0.01;
    return [low - pad, high + pad];
  }

  function sizeOf(chart) {
    const width = Math.max(chart.plot.clientWidth, 160);
    return { width, height: chart.spec.height || (width < 480 ? 230 : 300) };
  }

  function make(chart) {
    if (chart.u) chart.u.destroy();
    chart.zoomed = false;
    chart.tip.hidden = true; // it speaks of the lines that were
    chart.u = new uPlot(optionsFor(chart), joined(chart.spec), chart.plot);
    chart.u.over.addEventListener("dblclick", () => (chart.zoomed = false));
    chart.u.over.addEventListener("mouseenter", () => chart.tip.setAttribute("aria-live", "off"));
    chart.plot.append(chart.tip);
    chart.plot.setAttribute("aria-label", chart.spec.description);
    legend(chart);
  }

  function legend(chart) {
    const lines = chart.spec.lines;
    chart.legend.hidden = lines.length < 2 || lines.length > 24;
    if (chart.legend.hidden) return chart.legend.replaceChildren();
    const items = lines.map((line, number) => {
      const item = element("li");
      const button = element("button", "legend-key");
      button.type = "button";
      button.append(keyOf(line), element("span", "", line.label));
      button.setAttribute("aria-pressed", "true");
      button.title = "Show or hide this line";
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        chart.u.setSeries(number + 1, { show: shown });
      });
      item.append(button);
      return item;
    });
    chart.legend.replaceChildren(...items);
  }

  function onKey(chart, event) {
    const u = chart.u;
    const last = u.data[0].length - 1;
    const at = u.cursor.idx === null || u.cursor.idx === undefined ? 0 : u.cursor.idx;
    const step = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
    const places = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: last };
    if (event.key === "Escape") {
      chart.zoomed = false;
      u.setData(u.data);
      u.setCursor({ left: -10, top: -10 });
      return;
    }
    if (!(event.key in places)) return;
    event.preventDefault();
    chart.tip.setAttribute("aria-live", "polite");
    const place = Math.min(last, Math.max(0, places[event.key]));
    u.setCursor({ left: u.valToPos(u.data[0][place], "x"), top: u.over.clientHeight / 2 });
  }

  function shape(spec) {
    return JSON.stringify([spec.x_log, spec.y_log, spec.y_unit, spec.lines.map((l) => [l.label, l.colour, l.faint, l.dots, l.bars])]);
  }

  // Draws a chart into an element and returns how to change and remove it.
  function draw(holder, spec) {
    const chart = { spec, holder, zoomed: false, u: null };
    chart.plot = element("div", "plot");
    chart.plot.tabIndex = 0;
    chart.plot.setAttribute("role", "group");
    chart.plot.setAttribute("aria-roledescription", "chart");
    chart.tip = element("div", "tip");
    chart.tip.hidden = true;
    chart.legend = element("ul", "legend");
    chart.plot.addEventListener("keydown", (event) => onKey(chart, event));
    holder.replaceChildren(chart.plot, chart.legend);
    make(chart);
    chart.watch = new ResizeObserver(() => {
      const size = sizeOf(chart);
      if (size.width !== chart.u.width || size.height !== chart.u.height) chart.u.setSize(size);
    });
    chart.watch.observe(chart.plot);
    drawn.add(chart);
    return {
      chart,
      update(next) {
        const same = shape(next) === shape(chart.spec);
        chart.spec = next;
        if (!same) return make(chart);
        const few = next.lines.some((line) => line.x.length === 25); // dots give way to a plain line
        if (few) return make(chart);
        chart.u.setData(joined(next), !chart.zoomed);
        chart.plot.setAttribute("aria-label", next.description);
      },
      remove() {
        chart.watch.disconnect();
        chart.u.destroy();
        drawn.delete(chart);
        holder.replaceChildren();
      },
    };
  }

  function redrawAll() {
    for (const chart of drawn) chart.u.redraw(false);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(redrawAll));

  return { draw, said, seconds, bytes, element, seriesColour };
})();
