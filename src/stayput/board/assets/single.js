// The view of one run, with the round in progress, and the view of one sweep, with the response to what was swept.
import { addressOf, shortNames } from "./board.js";
import { chartOf, curveNames, fetchCurves } from "./curves.js";
import { GROUPS, STATES, ago, bar, element, facts, flat, isStale, said, stateMark, valueSaid } from "./words.js";

let current = null; // what is drawn, so that news change it rather than draw it anew

function begin(holder, key, title) {
  if (current && current.key === key) return current;
  if (current) for (const chart of Object.values(current.charts)) chart.remove();
  const back = element("a", "back", "← All runs");
  back.href = "#/";
  const head = element("h1", "", title);
  const parts = { line: element("p", "muted"), now: element("div", "now"), tiles: element("dl", "tiles"), charts: element("div", "charts"), rest: element("div") };
  holder.replaceChildren(back, head, ...Object.values(parts));
  current = { key, parts, charts: {}, facts: null };
  document.title = title + " - stayput board";
  return current;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function panel(title, ...children) {
  const made = element("section", "panel");
  const head = element("div", "panel-head");
  head.append(element("h2", "", capital(title)));
  made.append(head, ...children.filter(Boolean));
  return made;
}

function tiles(holder, entries) {
  holder.replaceChildren(
    ...entries.filter(Boolean).map(([name, value, note]) => {
      const tile = element("div", "tile");
      tile.append(element("dt", "", name), element("dd", "", value));
      if (note) tile.append(element("dd", "small", note));
      return tile;
    }),
  );
}

function missing(holder, what) {
  if (current) for (const chart of Object.values(current.charts)) chart.remove();
  current = null;
  const back = element("a", "back", "← All runs");
  back.href = "#/";
  holder.replaceChildren(back, element("p", "empty", what));
}

function drawChart(page, name, title, spec) {
  if (page.charts[name]) return page.charts[name].update(spec);
  const holder = element("div");
  page.parts.charts.append(panel(title, holder));
  page.charts[name] = stayputCharts.draw(holder, spec);
}

// The round in progress: how long it has been going on, by how long rounds take.
function inProgress(row, now) {
  if (row.state !== "running" || row.updated === null) return [];
  if (row.round >= row.rounds) return [element("span", "muted", "all rounds are done: finishing")];
  const since = Math.max(0, now - row.updated);
  if (isStale(row, now)) return [element("span", "", `Round ${row.round + 1}: no word for ${ago(since).replace(" ago", "")}; rounds took ${said("seconds", row.pace)}`)];
  const words = element("span", "", `Round ${row.round + 1} of ${row.rounds} in progress`);
  if (!row.pace) return [words];
  const left = ((row.rounds - row.round) * row.pace) - since;
  return [words, bar(Math.min(since / row.pace, 1), "bar"), element("span", "muted", `rounds take ${said("seconds", row.pace)}, ${left > 0 ? "at most " + said("seconds", left) + " left" : "the last one"}`)];
}

export async function showRun(holder, name, rows, now) {
  const row = rows.get(name);
  if (!row) return missing(holder, rows.size ? `There is no run ${name} here.` : "Waiting for the runs.");
  const page = begin(holder, "run " + name, row.name);
  page.parts.line.replaceChildren(stateMark(row, now), ...(row.sweep ? [" in ", sweepLink(row.sweep)] : []), row.task ? ` · ${row.task}` : "");
  if (!row.metric) return page.parts.rest.replaceChildren(panel("Cannot be shown", element("p", "reason", row.reason || "It is being prepared: it has no spec yet.")));
  page.parts.now.replaceChildren(...inProgress(row, now));
  tiles(page.parts.tiles, [
    row.target === null ? null : [`Rounds to ${valueSaid(row.metric, row.target)}`, row.rounds_to_target === null ? "—" : said("count", row.rounds_to_target), row.rounds_to_target === null ? "not reached" : "reached"],
    [capital(`${row.metric.replaceAll("_", " ")} now`), valueSaid(row.metric, row.value), `best ${valueSaid(row.metric, row.best)}`],
    ["Rounds", said("count", row.round), `of at most ${said("count", row.rounds)}`],
    ["Time per round", said("seconds", row.pace), row.updated === null ? "" : `last one ${ago(now - row.updated)}`],
  ]);
  try {
    await fetchCurves([name]);
  } catch {
    return;
  }
  if (current !== page) return;
  const names = curveNames([row]);
  for (const curve of [row.metric, "loss", "train_loss", "seconds", ...names].filter((one, at, all) => all.indexOf(one) === at && names.includes(one))) {
    drawChart(page, curve, curve === "seconds" ? "seconds per round" : curve.replaceAll("_", " "), { ...chartOf([row], curve, [curve.replaceAll("_", " ")]), height: 220 });
  }
  await fillFacts(page, row);
}

async function fillFacts(page, row) {
  const key = [row.state, row.reason].join();
  if (page.facts === key) return;
  const answer = await fetch("/api/run?run=" + encodeURIComponent(row.id)).catch(() => null);
  if (!answer || !answer.ok || current !== page) return;
  const found = await answer.json();
  page.facts = key;
  const columns = element("div", "columns");
  columns.append(panel("Settings", facts(flat(found.spec))), panel("Clients", facts(Object.entries(found.clients))), panel("Computed with", facts(flat(found.environment))));
  if (found.result) columns.append(panel("Outcome", facts(flat(found.result))));
  const note = element("p", "muted", "");
  note.append("The same to keep and to send, with how labels are spread over clients: ", element("code", "", `stayput report ${row.id}`));
  page.parts.rest.replaceChildren(...(row.reason ? [panel("Cannot be read on", element("p", "reason", row.reason))] : []), columns, panel("Report", note));
}

function sweepLink(name) {
  const link = element("a", "", name);
  link.href = addressOf("sweep", name);
  return link;
}

function sweptSetting(members) {
  const keys = [...new Set(members.flatMap((row) => Object.keys(row.settings)))].filter((key) => key !== "seed" && key !== "partition_seed");
  const counts = keys.map((key) => [key, new Set(members.map((row) => row.settings[key])).size, members.every((row) => row.settings[key] !== undefined && Number.isFinite(Number(row.settings[key])))]);
  const able = counts.filter(([, count, numeric]) => numeric && count >= 3).sort((a, b) => b[1] - a[1]);
  const rate = able.find(([key]) => key === "learning_rate");
  return (rate || able[0] || [null])[0];
}

function responseChart(members, swept, toTarget) {
  const metric = members[0].metric;
  const others = Object.keys(members[0].settings).filter((key) => key !== swept && new Set(members.map((row) => row.settings[key])).size > 1);
  const groups = new Map();
  for (const row of members) {
    const name = others.map((key) => `${key}=${row.settings[key]}`).join(", ") || metric;
    groups.set(name, [...(groups.get(name) || []), row]);
  }
  const lines = [...groups].map(([label, some], colour) => {
    const ordered = some.sort((a, b) => Number(a.settings[swept]) - Number(b.settings[swept]));
    return { label, colour, x: ordered.map((row) => Number(row.settings[swept])), y: ordered.map((row) => (toTarget ? row.rounds_to_target : row.best) ?? null) };
  });
  const xs = lines.flatMap((line) => line.x);
  const what = toTarget ? `rounds to ${valueSaid(metric, members[0].target)}` : `best ${metric}`;
  return {
    name: "response", description: `${what} by ${swept}. Arrow keys move along the values.`, x_label: swept.replaceAll("_", " "), y_label: what, lines,
    x_unit: "number", y_unit: !toTarget && metric.endsWith("accuracy") ? "percent" : "number", x_log: Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) >= 4,
    y_log: false, low: toTarget ? 0 : null, high: null, target: null, target_label: null, categories: null, height: 240,
  };
}

function better(a, b) {
  const [x, y] = [a.rounds_to_target ?? Infinity, b.rounds_to_target ?? Infinity];
  if (x !== y) return x - y;
  return a.higher ? (b.best ?? -Infinity) - (a.best ?? -Infinity) : (a.best ?? Infinity) - (b.best ?? Infinity);
}

export async function showSweep(holder, name, rows, now) {
  const all = [...rows.values()].filter((row) => row.sweep === name);
  if (!all.length) return missing(holder, rows.size ? `There is no sweep ${name} here.` : "Waiting for the runs.");
  const page = begin(holder, "sweep " + name, name);
  const members = all.filter((row) => row.metric);
  const going = all.filter(GROUPS.going.has).length;
  page.parts.line.textContent = `${all.length} runs, ${going ? going + " going on" : "none going on"}${members.length < all.length ? `, ${all.length - members.length} cannot be read` : ""}`;
  if (!members.length) return;
  const ranked = [...members].sort(better);
  const best = ranked[0];
  const top = [...members].sort((a, b) => better({ ...a, rounds_to_target: null }, { ...b, rounds_to_target: null }))[0];
  const done = members.reduce((sum, row) => sum + row.round, 0);
  tiles(page.parts.tiles, [
    best.target === null ? null : [`Fewest rounds to ${valueSaid(best.metric, best.target)}`, said("count", best.rounds_to_target), `${members.filter((row) => row.rounds_to_target !== null).length} of ${members.length} reached it`],
    [`Best ${best.metric}`, valueSaid(top.metric, top.best), top.name],
    ["Rounds", said("count", done), `of at most ${said("count", members.reduce((sum, row) => sum + row.rounds, 0))}`],
  ]);
  const drawn = ranked.slice(0, 40);
  try {
    await fetchCurves(drawn.map((row) => row.id));
  } catch {
    return;
  }
  if (current !== page) return;
  drawChart(page, "curves", drawn.length < members.length ? `Curves of the best ${drawn.length}` : "Curves", chartOf(drawn, best.metric, drawn.map((row) => row.name)));
  const swept = sweptSetting(members);
  if (swept) {
    if (members.some((row) => row.rounds_to_target !== null)) drawChart(page, "rounds", `Rounds to the target, by ${swept.replaceAll("_", " ")}`, responseChart(members, swept, true));
    drawChart(page, "best", `Best ${best.metric}, by ${swept.replaceAll("_", " ")}`, responseChart(members, swept, false));
  }
  page.parts.rest.replaceChildren(memberTable(all, best, now));
}

function bySettings(a, b) {
  for (const key of Object.keys(a.settings || {})) {
    const [x, y] = [a.settings[key], (b.settings || {})[key]];
    if (x !== y) return Number(x) - Number(y) || String(x).localeCompare(String(y));
  }
  return a.name < b.name ? -1 : 1;
}

function memberTable(all, best, now) {
  const table = element("table", "runs");
  const head = element("tr");
  for (const [text, className] of [["Run", ""], ["State", ""], ["Rounds", "right"], ["Now", "right"], ["Best", "right"], ["To target", "right"]]) {
    const cell = element("th", className, text);
    cell.scope = "col";
    head.append(cell);
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of [...all].sort(bySettings)) {
    const line = element("tr");
    const name = element("td", "name");
    const link = element("a", "", row.name);
    link.href = addressOf("run", row.id);
    name.append(link, ...(row === best ? [element("span", "about", "the best")] : row.reason ? [element("span", "about reason", row.reason)] : []));
    const state = element("td", "state-cell");
    state.append(stateMark(row, now));
    const known = Boolean(row.metric);
    const cells = known ? [`${said("count", row.round)} / ${said("count", row.rounds)}`, valueSaid(row.metric, row.value), valueSaid(row.metric, row.best), row.rounds_to_target === null ? "—" : said("count", row.rounds_to_target)] : ["", "", "", ""];
    const labels = ["round", "now", "best", "to target"];
    const classes = ["rounds-cell", "value-cell", "best-cell", "target-cell"];
    line.append(element("td", "pick"), name, state, ...cells.map((text, at) => {
      const cell = element("td", "right " + classes[at], text);
      cell.dataset.label = labels[at];
      return cell;
    }));
    body.append(line);
  }
  head.prepend(element("td", "pick"));
  table.append(top, body);
  const holder = element("div", "scroll");
  holder.append(table);
  return panel("Runs of the sweep", holder);
}
