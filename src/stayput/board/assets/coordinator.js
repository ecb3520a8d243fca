// A deployment as it trains: the round in progress, clients by state, what was dropped and why, and how rounds went.
// It asks the coordinator's own status again and again, with a token that only reads, and for closed rounds it has not.
import { linkShower } from "./stream.js";
import { bar, element, facts, isShare, said, valueSaid } from "./words.js";

const EVERY = 1500;
const SILENCE = 6000;
const MOST_CLIENTS = 200;
const KEY = "stayput-status-token";
const byId = (id) => document.getElementById(id);
const showLink = linkShower(byId("link"), byId("banner"));
const rounds = new Map();
const charts = {};
let heard = null;
let filter = "";
let state = "";
let last = null;
let timer = null;

const STATES = { ready: "waiting", working: "training or uploading", expected: "expected", "not now": "not now", away: "away", revoked: "revoked", "not enrolled": "not enrolled", unknown: "unknown" };
const LOOK = { "not enrolled": "interrupted", unknown: "interrupted", expected: "interrupted", ready: "reached", working: "running", away: "interrupted", revoked: "broken", "not now": "interrupted" };

function ask(refused = "") {
  byId("token-form").hidden = false;
  byId("fleet").hidden = true;
  byId("refused").textContent = refused;
  byId("token").focus();
}

async function look() {
  clearTimeout(timer);
  const token = sessionStorage.getItem(KEY);
  if (!token) return ask();
  try {
    const after = rounds.size ? Math.max(...rounds.keys()) : -1;
    const answer = await fetch("/v1/status?after=" + after, { headers: { Authorization: "Bearer " + token }, cache: "no-store", signal: AbortSignal.timeout(SILENCE) });
    if (answer.status === 401 || answer.status === 403) {
      sessionStorage.removeItem(KEY);
      const why = await answer.json().catch(() => ({}));
      return ask("The token was refused" + (why.message ? ": " + why.message : "."));
    }
    if (!answer.ok) throw new Error("status " + answer.status);
    const status = await answer.json();
    if (last && status.last_round < last.last_round) rounds.clear(); // another training by the same address
    for (const round of status.history) rounds.set(round.number, round);
    heard = Date.now();
    last = status;
    byId("token-form").hidden = true;
    byId("refused").textContent = "";
    byId("fleet").hidden = false;
    draw(status);
    showLink(true, heard);
  } catch {
    showLink(false, heard);
  }
  timer = setTimeout(look, EVERY);
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function mark(name) {
  return element("span", "state " + (LOOK[name] || "ended"), STATES[name] || name);
}

function tile([name, value, note]) {
  const made = element("div", "tile");
  made.append(element("dt", "", name), element("dd", "", value), element("dd", "small", note || ""));
  return made;
}

function draw(status) {
  const done = [...rounds.values()].sort((a, b) => a.number - b.number);
  const evaluated = done.some((round) => valueOf(round, status.metric) !== null);
  const metric = evaluated ? status.metric : "train_loss"; // a coordinator without test examples knows no other
  byId("about").textContent = "\u200e" + [status.task, (status.algorithm || {}).name].filter(Boolean).join(", ");
  byId("title").textContent = status.failure ? "Training has failed" : status.finished ? "Training has ended" : "Training";
  document.title = (status.finished ? "ended" : `round ${status.last_round + 1}`) + " - stayput coordinator";
  byId("waiting").textContent = status.failure || (status.waiting_for ? "Waiting for " + status.waiting_for : status.trouble || "");
  const values = done.map((round) => valueOf(round, metric)).filter((value) => value !== null);
  const open = status.round;
  drawNow(open, status);
  byId("tiles").replaceChildren(
    ...[
      ["Rounds", said("count", status.last_round), `of at most ${said("count", status.rounds)}`],
      [capital(metric.replaceAll("_", " ")), values.length ? valueSaid(metric, values[values.length - 1]) : "—", values.length ? `best ${valueSaid(metric, metric.endsWith("loss") ? Math.min(...values) : Math.max(...values))}` : "not evaluated yet"],
      ["Reports", open ? `${open.reported} of ${open.goal}` : "—", open ? `at least ${open.minimum}, attempt ${open.attempt}` : "no round is open"],
      ["Clients", said("count", status.clients.length), `${status.client_states.ready || 0} waiting, ${status.client_states.working || 0} at work`],
      ["Dropped", said("count", status.dropouts.reduce((sum, entry) => sum + entry.count, 0)), `${status.failed_attempts.length} attempts failed`],
    ].map(tile),
  );
  drawCharts(done, metric, status);
  drawDrops(status.dropouts);
  drawTasks(open, status);
  drawClients(status);
  byId("health").replaceChildren(
    facts([
      ["takes changes", status.ready ? "yes" : "no: " + (status.trouble || "unknown")],
      ["failed attempts", status.failed_attempts.length ? status.failed_attempts.map((one) => `round ${one.round}, attempt ${one.attempt}`).slice(-6).join("; ") : "none"],
      ["version", `stayput ${status.version}, protocol ${status.protocol}`],
      ["target", status.target === null ? "none" : valueSaid(status.metric, status.target)],
    ]),
  );
}

function valueOf(round, metric) {
  const report = round.report || {};
  const value = metric === "train_loss" ? report.train_loss : (report.evaluation || {})[metric];
  return Number.isFinite(value) ? value : null;
}

function drawNow(open, status) {
  if (!open) return byId("now").replaceChildren();
  const left = open.seconds_left === null ? "no deadline" : `${said("seconds", open.seconds_left)} to its deadline`;
  byId("now").replaceChildren(element("span", "", `Round ${open.number} of ${status.rounds}: ${open.phase}`), bar(open.goal ? open.reported / open.goal : 0, "bar"), element("span", "muted", left));
}

function change(name, spec) {
  if (charts[name]) charts[name].update(spec);
  else charts[name] = stayputCharts.draw(byId(name), spec);
}

function chartSpec(name, description, lines, unit, target, low) {
  return { name, description, x_label: "round", y_label: "", lines, x_unit: "count", y_unit: unit, x_log: false, y_log: false, low, high: null, target, target_label: target === null ? null : "target", categories: null, height: 240 };
}

function drawCharts(done, metric, status) {
  byId("metric-title").textContent = capital(metric.replaceAll("_", " "));
  const evaluated = done.filter((round) => valueOf(round, metric) !== null);
  const target = metric === status.metric ? status.target : null;
  const line = { label: metric, x: evaluated.map((round) => round.number), y: evaluated.map((round) => valueOf(round, metric)), colour: 0 };
  change("metric-chart", chartSpec("metric", `${metric} by round, ${evaluated.length} evaluations`, [line], isShare(metric) ? "percent" : "number", target, null));
  const between = (round, from, to) => (round[from] === null || round[to] === null ? null : Math.max(0, round[to] - round[from]));
  const parts = [["selecting clients", "opened_at", "selected_at"], ["training and uploads", "selected_at", "closing_at"], ["summing", "closing_at", "closed_at"]];
  const timed = done.filter((round) => round.number > 0);
  const lines = parts.map(([label, from, to], colour) => ({ label, x: timed.map((round) => round.number), y: timed.map((round) => between(round, from, to)), colour }));
  change("time-chart", chartSpec("times", "Seconds that each round spent on selecting clients, on training and uploads, and on summing", lines, "seconds", null, 0));
}

function drawDrops(dropouts) {
  const counts = new Map();
  for (const { reason, count } of dropouts) counts.set(reason, (counts.get(reason) || 0) + count);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  byId("drops").replaceChildren(sorted.length ? facts(sorted.map(([reason, count]) => [reason, said("count", count)])) : element("p", "muted", "Every task so far was reported."));
}

function drawTasks(open, status) {
  if (!open) return byId("tasks").replaceChildren(element("p", "muted", status.finished ? "Training has ended." : "No round is open."));
  const counts = new Map();
  for (const task of open.tasks) {
    const name = task.state === "open" ? "training or uploading" : task.state === "reported" ? "reported" : "dropped: " + (task.reason || "unknown");
    counts.set(name, (counts.get(name) || 0) + 1);
  }
  byId("tasks").replaceChildren(counts.size ? facts([...counts].map(([name, count]) => [name, said("count", count)])) : element("p", "muted", "Clients are being selected."));
}

function drawClients(status) {
  const tasks = new Map(((status.round || {}).tasks || []).map((task) => [task.client, task]));
  const counts = new Map();
  for (const client of status.clients) counts.set(client.state, (counts.get(client.state) || 0) + 1);
  const groups = [["", status.clients.length], ...[...counts].sort((a, b) => b[1] - a[1])];
  const buttons = byId("states");
  if (buttons.dataset.groups !== JSON.stringify([groups, state])) {
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.group : undefined;
    buttons.replaceChildren(
      ...groups.map(([name, count]) => {
        const button = element("button", "", `${name ? STATES[name] || name : "all"} ${count}`);
        button.type = "button";
        button.dataset.group = name;
        button.setAttribute("aria-pressed", String(state === name));
        button.addEventListener("click", () => ((state = name), drawClients(last)));
        return button;
      }),
    );
    buttons.dataset.groups = JSON.stringify([groups, state]);
    if (focused !== undefined) (buttons.querySelector(`[data-group="${CSS.escape(focused)}"]`) || buttons.firstChild).focus();
  }
  const words = filter.toLowerCase().split(/\s+/);
  const found = status.clients.filter((client) => (!state || client.state === state) && words.every((word) => `${client.number} ${client.name} ${STATES[client.state] || client.state}`.toLowerCase().includes(word)));
  byId("count").textContent = `${found.length} of ${status.clients.length} clients` + (found.length > MOST_CLIENTS ? `, the first ${MOST_CLIENTS} shown` : "");
  byId("clients").replaceChildren(
    ...found.slice(0, MOST_CLIENTS).map((client) => {
      const row = element("tr");
      const task = tasks.get(client.number);
      const cell = element("td");
      cell.append(mark(client.state));
      row.append(element("td", "right", String(client.number)), element("td", "", client.name || "—"), cell, element("td", "", task ? (task.state === "dropped" ? "dropped: " + task.reason : task.state) : "—"), element("td", "right", client.num_examples === null ? "—" : said("count", client.num_examples)));
      return row;
    }),
  );
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, byId("token").value.trim());
  byId("token").value = "";
  look();
});
byId("filter").addEventListener("input", () => {
  filter = byId("filter").value;
  if (last) drawClients(last);
});
document.addEventListener("visibilitychange", () => !document.hidden && look());
look();
