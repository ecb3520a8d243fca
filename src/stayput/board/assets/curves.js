// Runs' curves, fetched once and then added to: what the charts of the page draw.
import { isShare, unitOf, valueSaid } from "./words.js";

const kept = new Map();

export async function fetchCurves(names) {
  const asked = names.slice(0, 64);
  if (!asked.length) return;
  const query = new URLSearchParams();
  for (const name of asked) query.append("run", name);
  for (const name of asked) {
    const last = kept.has(name) ? kept.get(name).last_round : null;
    query.append("after", last === null ? "" : String(last));
  }
  const answer = await fetch("/api/series?" + query);
  if (!answer.ok) throw new Error("no curves: " + answer.status);
  for (const [name, found] of Object.entries(await answer.json())) merge(name, found);
}

function merge(name, found) {
  const before = kept.get(name);
  if (found.whole || !before) {
    kept.set(name, found);
    return;
  }
  if (found.last_round !== null && before.last_round !== null && found.last_round < before.last_round) {
    kept.delete(name); // the run went back: its history is another one
    return;
  }
  for (const [curve, points] of Object.entries(found.curves)) {
    const had = before.curves[curve] || (before.curves[curve] = { x: [], y: [] });
    had.x.push(...points.x);
    had.y.push(...points.y);
    if (had.x.length > 1500) kept.delete(name); // thinned anew next time
  }
  before.last_round = found.last_round;
  before.broken = found.broken;
}

export function curvesOf(name) {
  return kept.get(name);
}

export function bestSoFar(values, higher) {
  let best = null;
  return values.map((value) => {
    if (value !== null && (best === null || (higher ? value > best : value < best))) best = value;
    return best;
  });
}

function rangeOf(lines, target, share) {
  const values = lines.flatMap((line) => line.y).filter((value) => value !== null);
  if (target !== null) values.push(target);
  if (!values.length) return [0, 1];
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (share && low >= 0 && high <= 1) {
    const ends = lines.map((line) => Math.max(0, ...line.y.filter((value) => value !== null)));
    const focus = Math.min(...ends, target === null ? 1 : target);
    low = Math.max(low, Math.min(0.99, 1 - 4 * (1 - focus)));
    const pad = 0.06 * (high - low) || 0.03;
    high = high + pad > 0.97 ? 1 + 0.02 * (1 - low) : high + pad;
    return [Math.max(0, low), high];
  }
  const pad = 0.06 * (high - low) || Math.max(0.05, Math.abs(high) * 0.05);
  return [low < 0 || low > 0.5 * high ? low - pad : 0, high + pad];
}

// The chart of one curve of several runs. Of a single run, every evaluation stands faintly beneath its best so far.
export function chartOf(rows, curve, names) {
  const metric = rows.length && rows[0].metric;
  const improving = curve === metric;
  const share = isShare(curve);
  const lines = [];
  rows.forEach((row, colour) => {
    const found = curvesOf(row.id);
    const points = (found && found.curves[curve]) || { x: [], y: [] };
    if (improving && rows.length === 1) lines.push({ label: "every evaluation", x: points.x, y: points.y, colour, faint: true });
    const y = improving ? bestSoFar(points.y, row.higher) : points.y;
    lines.push({ label: rows.length === 1 && improving ? "best so far" : names[colour], x: points.x, y, colour });
  });
  const targets = new Set(rows.map((row) => row.target));
  const target = improving && targets.size === 1 && rows[0].target !== null ? rows[0].target : null;
  const all = lines.flatMap((line) => line.y).filter((value) => value !== null && value > 0);
  const log = !share && all.length > 0 && curve !== "seconds" && Math.max(...all) / Math.min(...all) > 50;
  const [low, high] = log ? [null, null] : curve === "seconds" ? [0, null] : rangeOf(lines, target, share);
  const what = curve.replaceAll("_", " ");
  const stands = rows.slice(0, 6).map((row, place) => `${names[place]} ${curve === metric ? valueSaid(metric, row.value) : ""}`.trim());
  return {
    name: "curves",
    description: `${what} by round of ${rows.length === 1 ? "one run" : rows.length + " runs"}: ${stands.join(", ")}. Arrow keys move along the rounds.`,
    x_label: "round",
    y_label: what,
    lines,
    x_unit: "count",
    y_unit: unitOf(curve),
    x_log: false,
    y_log: log,
    low,
    high,
    target,
    target_label: target === null ? null : "target " + valueSaid(curve, target),
    categories: null,
  };
}

export function curveNames(rows) {
  const found = new Set();
  for (const row of rows) {
    if (row.metric) found.add(row.metric);
    const curves = curvesOf(row.id);
    if (curves) for (const name of Object.keys(curves.curves)) found.add(name);
  }
  return [...found];
}
