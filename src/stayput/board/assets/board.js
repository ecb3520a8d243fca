// The board: rows of runs, their curves, and the view of one run or one sweep. The address says what is shown, so that a
// reload, a bookmark and the back button show the same again.
import { chartOf, curveNames, fetchCurves } from "./curves.js";
import { showRun, showSweep } from "./single.js";
import { Stream, linkShower } from "./stream.js";
import { GROUPS, STATES, ago, bar, element, isStale, said, spark, stateMark, valueSaid } from "./words.js";

const MOST_DRAWN = 12;
const AT_ONCE = 100;
const byId = (id) => document.getElementById(id);
const rows = new Map();
const drawnRows = new Map();
let chart = null;
let view = readAddress();
let shown = AT_ONCE;
let pending = false;

function readAddress() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const asked = new URLSearchParams(query || "");
  const [, kind, ...name] = path.split("/");
  return {
    kind: kind === "run" || kind === "sweep" ? kind : "overview",
    name: decodeURIComponent(name.join("/")),
    filter: asked.get("filter") || "",
    group: asked.get("state") in GROUPS ? asked.get("state") : "all",
    sort: asked.get("sort") || "updated",
    down: asked.get("order") !== "up",
    picked: asked.has("runs") ? asked.get("runs").split("|").filter(Boolean) : null,
    metric: asked.get("metric"),
  };
}

function writeAddress() {
  const query = new URLSearchParams();
  if (view.filter) query.set("filter", view.filter);
  if (view.group !== "all") query.set("state", view.group);
  if (view.sort !== "updated") query.set("sort", view.sort);
  if (!view.down) query.set("order", "up");
  if (view.picked) query.set("runs", view.picked.join("|"));
  if (view.metric) query.set("metric", view.metric);
  const text = query.toString();
  history.replaceState(null, "", "#/" + (text ? "?" + text : ""));
}

export function addressOf(kind, name) {
  return `#/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

function matches(row) {
  if (!GROUPS[view.group].has(row)) return false;
  const settings = Object.entries(row.settings || {}).map(([name, value]) => `${name}=${value}`);
  const letters = { learning_rate: "η", local_epochs: "E", batch_size: "B", client_fraction: "C" };
  const short = Object.entries(letters).map(([name, letter]) => `${letter}=${(row.settings || {})[name]}`);
  const text = [row.id, row.task || "", STATES[row.state], ...settings, ...short].join(" ").toLowerCase();
  return view.filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function compared(a, b) {
  const [x, y] = [a[view.sort], b[view.sort]];
  const empty = (value) => value === null || value === undefined;
  if (empty(x) || empty(y)) return empty(x) - empty(y); // what is not known comes last, whichever way
  const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
  return view.down ? -order : order;
}

function visible() {
  const found = [...rows.values()].filter(matches);
  const going = (row) => (view.sort === "updated" && view.down && GROUPS.going.has(row) ? 0 : 1);
  return found.sort((a, b) => going(a) - going(b) || compared(a, b) || (a.id < b.id ? -1 : 1));
}

function pickedRows() {
  if (view.picked) return view.picked.map((name) => rows.get(name)).filter((row) => row && row.metric);
  const able = [...rows.values()].filter((row) => row.metric && row.round > 0);
  const going = able.filter((row) => row.state === "running");
  const newest = able.sort((a, b) => (b.updated || 0) - (a.updated || 0));
  return (going.length ? going : newest.slice(0, 3)).slice(0, MOST_DRAWN);
}

// Rows are kept from one drawing to the next and changed only where they differ: focus and selection stay.
function cells(row, now) {
  const stale = isStale(row, now);
  const known = row.metric !== undefined;
  return {
    name: [row.id, row.sweep, row.reason],
    state: [row.state, stale && Math.round((now - row.updated) / 5), row.diverged],
    rounds: [row.round, row.rounds],
    value: known ? valueSaid(row.metric, row.value) : "",
    best: known ? valueSaid(row.metric, row.best) : "",
    target: known && row.target !== null ? (row.rounds_to_target === null ? "—" : said("count", row.rounds_to_target)) : "",
    spark: [row.spark, row.target],
    updated: row.updated === null ? "" : ago(now - row.updated),
  };
}

function makeRow(row) {
  const line = element("tr");
  const parts = {};
  for (const [name, className, label] of [
    ["pick", "pick"], ["name", "name"], ["state", "state-cell"], ["rounds", "right rounds-cell", "round"], ["value", "right value-cell", "now"],
    ["best", "right best-cell", "best"], ["target", "right target-cell", "to target"], ["spark", "spark-cell"], ["updated", "right updated-cell", "last round"],
  ]) {
    parts[name] = element("td", className);
    if (label) parts[name].dataset.label = label;
    line.append(parts[name]);
  }
  const box = element("input");
  box.type = "checkbox";
  box.setAttribute("aria-label", "Draw the curve of " + row.id);
  box.addEventListener("change", () => pick(row.id, box.checked));
  parts.pick.append(box);
  return { line, parts, box, had: {} };
}

function fillName(cell, row) {
  const link = element("a", "", row.sweep ? row.sweep + " / " + row.name : row.name);
  link.href = addressOf("run", row.id);
  const about = row.metric ? [row.task, row.settings.algorithm, row.settings.partition].filter(Boolean).join(", ") : "";
  cell.replaceChildren(link);
  if (about) cell.append(element("span", "about", about));
  if (row.reason) cell.append(element("span", "about reason", row.reason));
}

function fillRow(entry, row, now) {
  const next = cells(row, now);
  const { parts, had } = entry;
  const differs = (name) => JSON.stringify(next[name]) !== had[name];
  if (differs("name")) fillName(parts.name, row);
  if (differs("state")) parts.state.replaceChildren(stateMark(row, now));
  if (differs("rounds") && row.metric) {
    const share = row.rounds ? row.round / row.rounds : 1;
    parts.rounds.replaceChildren(`${said("count", row.round)} / ${said("count", row.rounds)}`, bar(share, "progress"));
  }
  for (const name of ["value", "best", "target", "updated"]) if (differs(name)) parts[name].textContent = next[name];
  if (differs("spark")) parts.spark.replaceChildren(spark(row));
  for (const [name, value] of Object.entries(next)) had[name] = JSON.stringify(value);
  entry.line.classList.toggle("stale", isStale(row, now));
  entry.line.classList.toggle("bare", !row.metric);
}

function drawTable(chosen) {
  const found = visible();
  const now = stream.now();
  const lines = [];
  for (const row of found.slice(0, shown)) {
    if (!drawnRows.has(row.id)) drawnRows.set(row.id, makeRow(row));
    const entry = drawnRows.get(row.id);
    fillRow(entry, row, now);
    entry.box.checked = chosen.has(row.id);
    entry.box.disabled = !row.metric;
    lines.push(entry.line);
  }
  place(byId("rows"), lines);
  const total = rows.size;
  byId("count").textContent = total ? (found.length === total ? plural(total) : `${found.length} of ${plural(total)}`) : "";
  byId("runs").hidden = !found.length;
  byId("more-holder").hidden = found.length <= shown;
  byId("more").textContent = `Show ${Math.min(AT_ONCE, found.length - shown)} more of ${found.length - shown}`;
  drawEmpty(total, found.length);
}

function plural(count) {
  return `${said("count", count)} ${count === 1 ? "run" : "runs"}`;
}

// Puts lines into a body in this order, moving only those that are elsewhere: what has the focus keeps it.
function place(body, lines) {
  const wanted = new Set(lines);
  for (const line of [...body.children]) if (!wanted.has(line)) line.remove();
  lines.forEach((line, at) => {
    if (body.children[at] !== line) body.insertBefore(line, body.children[at] || null);
  });
}

let folder = { name: "", exists: true };
function drawEmpty(total, found) {
  const empty = byId("empty");
  empty.hidden = found > 0;
  if (found > 0) return;
  if (total) return empty.replaceChildren("No run matches. ", clearButton());
  const where = element("code", "", folder.name);
  const how = element("code", "", "stayput run mnist-2nn");
  const first = folder.exists ? ["No runs in ", where, " yet."] : ["There is no folder ", where, " yet."];
  empty.replaceChildren(...first, element("br"), how, " makes one, and it appears here.");
}

function clearButton() {
  const button = element("button", "quiet", "Show all");
  button.type = "button";
  button.addEventListener("click", () => {
    view.filter = byId("filter").value = "";
    view.group = "all";
    changed();
  });
  return button;
}

function drawGroups() {
  const all = [...rows.values()];
  const buttons = Object.entries(GROUPS).map(([name, group]) => {
    const count = all.filter(group.has).length;
    const known = byId("states").querySelector(`[data-group="${name}"]`);
    const button = known || element("button");
    button.type = "button";
    button.dataset.group = name;
    button.textContent = `${group.label} ${count}`;
    button.setAttribute("aria-pressed", String(view.group === name));
    if (!known) button.addEventListener("click", () => ((view.group = name), (shown = AT_ONCE), changed()));
    return button;
  });
  if (byId("states").children.length !== buttons.length) byId("states").replaceChildren(...buttons);
}

function drawHeads() {
  for (const head of document.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === view.sort) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function drawSweeps() {
  const sweeps = new Map();
  for (const row of rows.values()) if (row.sweep) sweeps.set(row.sweep, [...(sweeps.get(row.sweep) || []), row]);
  byId("sweeps-panel").hidden = !sweeps.size;
  const items = [...sweeps].map(([name, members]) => {
    const item = element("li");
    const link = element("a", "", name);
    link.href = addressOf("sweep", name);
    const going = members.filter(GROUPS.going.has).length;
    const able = members.filter((row) => row.best !== null && row.best !== undefined);
    const best = able.sort((a, b) => (a.higher ? b.best - a.best : a.best - b.best))[0];
    const words = [plural(members.length), going ? `${going} running` : "all at rest"];
    if (best) words.push(`best ${best.metric} ${valueSaid(best.metric, best.best)}`);
    item.append(link, element("div", "muted", words.join(", ")));
    return item;
  });
  const text = items.map((item) => item.textContent).join("|");
  if (text !== byId("sweeps").dataset.text) byId("sweeps").replaceChildren(...items);
  byId("sweeps").dataset.text = text;
}

export function shortNames(some) {
  const keys = [...new Set(some.flatMap((row) => Object.keys(row.settings || {})))];
  const differ = keys.filter((key) => new Set(some.map((row) => row.settings[key])).size > 1);
  return some.map((row) => {
    const told = differ.filter((key) => !row.id.includes(key + "=")).slice(0, 3);
    return [row.sweep ? row.sweep + "/" + row.name : row.name, ...told.map((key) => `${key}=${row.settings[key]}`)].join(", ");
  });
}

async function drawCurves(some) {
  byId("curves-panel").hidden = !some.length;
  if (!some.length) return;
  try {
    await fetchCurves(some.map((row) => row.id));
  } catch {
    return; // the banner says that the connection is lost; the next event tries again
  }
  const names = curveNames(some);
  const metric = names.includes(view.metric) ? view.metric : some[0].metric;
  const select = byId("metric");
  if (select.dataset.names !== names.join("|")) {
    select.replaceChildren(...names.map((name) => new Option(name === "seconds" ? "seconds per round" : name.replaceAll("_", " "), name)));
    select.dataset.names = names.join("|");
  }
  select.value = metric;
  byId("unpick").hidden = !view.picked;
  byId("curves-note").textContent = view.picked ? "the runs that are ticked below" : some.some((row) => row.state === "running") ? "of the runs that are going on" : "of the latest runs";
  const spec = chartOf(some, metric, shortNames(some));
  if (chart) chart.update(spec);
  else chart = stayputCharts.draw(byId("curves"), spec);
}

function pick(name, on) {
  const before = view.picked || pickedRows().map((row) => row.id);
  view.picked = on ? [...new Set([...before, name])].slice(-24) : before.filter((other) => other !== name);
  changed();
}

function changed() {
  writeAddress();
  draw();
}

async function draw() {
  if (pending) return;
  pending = true;
  try {
    const single = view.kind !== "overview";
    byId("overview").hidden = single;
    byId("single").hidden = !single;
    if (single) {
      const show = view.kind === "run" ? showRun : showSweep;
      await show(byId("single"), view.name, rows, stream.now());
    } else {
      document.title = "stayput board";
      const some = pickedRows();
      drawGroups();
      drawHeads();
      drawSweeps();
      drawTable(new Set(some.map((row) => row.id)));
      await drawCurves(some);
    }
  } finally {
    pending = false;
  }
}

const ENDS = ["reached", "ended", "diverged", "interrupted"];
function tell(before, row) {
  if (before && before.state === "running" && ENDS.includes(row.state)) {
    byId("said").textContent = `${row.id}: ${STATES[row.state]} after ${row.round} rounds`;
  }
}

function take(news) {
  folder = { name: news.folder, exists: news.exists };
  byId("folder").textContent = "\u200e" + news.folder;
  if (news.whole) {
    const there = new Set(news.rows.map((row) => row.id));
    for (const name of rows.keys()) if (!there.has(name)) rows.delete(name);
  }
  for (const row of news.rows) {
    tell(rows.get(row.id), row);
    rows.set(row.id, row);
  }
  for (const name of news.removed) {
    rows.delete(name);
    drawnRows.delete(name);
  }
  draw();
}

byId("filter").value = view.filter;
byId("filter").addEventListener("input", () => ((view.filter = byId("filter").value), (shown = AT_ONCE), changed()));
byId("metric").addEventListener("change", () => ((view.metric = byId("metric").value), changed()));
byId("unpick").addEventListener("click", () => ((view.picked = null), changed()));
byId("more").addEventListener("click", () => ((shown += AT_ONCE), draw()));
for (const head of document.querySelectorAll("th[data-sort] button")) {
  head.addEventListener("click", () => {
    const sort = head.parentElement.dataset.sort;
    view.down = sort === view.sort ? !view.down : sort !== "name" && sort !== "state" && sort !== "rounds_to_target";
    view.sort = sort;
    changed();
  });
}
document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "/" && !typing && view.kind === "overview") {
    event.preventDefault();
    byId("filter").focus();
  }
});
addEventListener("hashchange", () => {
  view = readAddress();
  byId("filter").value = view.filter;
  shown = AT_ONCE;
  draw();
  byId("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(() => !document.hidden && view.kind === "overview" && rows.size && drawTable(new Set(pickedRows().map((row) => row.id))), 5000);

const stream = new Stream("/events", { runs: take, beat: () => view.kind !== "overview" && draw() }, linkShower(byId("link"), byId("banner")));
