// How the page says things: states, values, times. All texts become text nodes: nothing a run is called is markup.
export const { element, said } = stayputCharts;

export const STATES = {
  running: "running",
  preparing: "preparing",
  reached: "reached target",
  ended: "ended",
  interrupted: "interrupted",
  diverged: "diverged",
  broken: "unreadable",
  newer: "newer version",
};

export const GROUPS = {
  all: { label: "all", has: () => true },
  going: { label: "running", has: (row) => row.state === "running" || row.state === "preparing" },
  ended: { label: "ended", has: (row) => row.state === "reached" || row.state === "ended" },
  trouble: { label: "in trouble", has: (row) => ["interrupted", "diverged", "broken", "newer"].includes(row.state) },
};

export function isShare(metric) {
  return metric === "accuracy" || (metric || "").endsWith("_accuracy");
}

export function unitOf(curve) {
  return curve === "seconds" ? "seconds" : isShare(curve) ? "percent" : "number";
}

export function valueSaid(metric, value) {
  return said(isShare(metric) ? "percent" : "number", value);
}

export function ago(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 60) return Math.round(seconds) + " s ago";
  if (seconds < 3600) return Math.round(seconds / 60) + " min ago";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h ago";
  return Math.round(seconds / 86400) + " days ago";
}

// A run that goes on but has been silent for much longer than its rounds take.
export function isStale(row, now) {
  return row.state === "running" && row.updated !== null && now - row.updated > Math.max(15, 6 * (row.pace || 0));
}

export function stateMark(row, now) {
  const stale = isStale(row, now);
  const text = stale ? "silent for " + ago(now - row.updated).replace(" ago", "") : STATES[row.state] || row.state;
  return element("span", "state " + row.state + (stale ? " stale" : ""), text);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A bar that is filled up to a share. Widths are attributes: the page's policy forbids inline styles.
export function bar(share, className) {
  const holder = element("span", className);
  const width = Math.max(0, Math.min(1, share)) * 100;
  holder.append(svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { x: 0, y: 0, width, height: 10 })));
  return holder;
}

// A run's curve in a table's cell, with its target; the numbers beside it say the same.
export function spark(row) {
  const [xs, ys] = row.spark || [[], []];
  const points = xs.map((x, place) => [x, ys[place]]).filter(([, y]) => y !== null);
  if (points.length < 2) return element("span", "muted", "");
  const known = points.map(([, y]) => y).concat(row.target === null ? [] : [row.target]);
  let low = Math.min(...known);
  const high = Math.max(...known);
  const last = points[points.length - 1][1];
  if (row.higher && isShare(row.metric)) low = Math.max(low, Math.min(last, high) - 3 * (1 - Math.min(last, high)) - 0.05);
  const span = high - low || 1;
  const end = points[points.length - 1][0] || 1;
  const place = ([x, y]) => ((100 * x) / end).toFixed(1) + "," + (28 - 26 * Math.max(0, (y - low) / span)).toFixed(1);
  const lines = [svg("polyline", { points: points.map(place).join(" ") })];
  if (row.target !== null && row.target !== undefined) {
    const y = 28 - (26 * (row.target - low)) / span;
    lines.unshift(svg("line", { x1: 0, x2: 100, y1: y, y2: y }));
  }
  return svg("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines);
}

export function facts(entries) {
  const table = element("table", "facts");
  const body = element("tbody");
  for (const [name, value] of entries) {
    const row = element("tr");
    const head = element("th", "", name);
    head.scope = "row";
    row.append(head, element("td", "", value));
    body.append(row);
  }
  table.append(body);
  return table;
}

export function flat(data, prefix = "") {
  return Object.entries(data || {}).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, prefix + name + ".")
      : [[prefix + name, value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value)]],
  );
}
