"use strict";
let figures = JSON.parse(document.getElementById("figures").textContent);
const main = document.querySelector("main");
const tiles = document.querySelector(".tiles");
const tip = document.querySelector(".tip");
const COLOURS = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => `var(--c${n})`);
const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 24;

// How values are written

const digits = (value, unit) => `${+value.toPrecision(3)} ${unit}`;
const time = (s) => s === null ? "-" : s <= 0 ? "0" : s < 1e-6 ? digits(s * 1e9, "ns") : s < 1e-3 ? digits(s * 1e6, "µs")
  : s < 1 ? digits(s * 1e3, "ms") : digits(s, "s");
const share = (value) => value === null ? "-" : `${+(value * 100).toPrecision(3)} %`;
const number = (value) => value >= 1e6 ? digits(value / 1e6, "M") : value >= 1e4 ? digits(value / 1e3, "k")
  : String(+value.toPrecision(value < 10 ? 2 : 5)).replace(/\.\d+$/, value < 10 ? "$&" : "");
const size = (value) => value >= 1e6 ? digits(value / 1e6, "MB") : value >= 1e3 ? digits(value / 1e3, "kB") : digits(value, "B");

const short = (place) => place.split("/").slice(-2).join("/") || "-";

// Elements. Text is only ever set as text: names come from the program. Styles are set as properties: the page's policy
// refuses style attributes.

function attribute(made, key, value) {
  if (key === "style") made.style.cssText = value;
  else made.setAttribute(key, value);
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) attribute(made, key, value);
  made.append(...children);
  return made;
}

function draw(svg, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) attribute(made, key, value);
  if (text !== undefined) made.textContent = text;
  svg.append(made);
  return made;
}

function card(title, note, { wide = false, legend = [] } = {}) {
  const made = element("section", { class: wide ? "card wide" : "card" }, element("h2", {}, title), element("p", { class: "note" }, note));
  if (legend.length > 1) {
    const list = element("ul", { class: "legend" });
    legend.forEach(([name, colour]) => list.append(element("li", {}, element("i", { style: `background:${colour}` }), name)));
    made.append(list);
  }
  main.append(made);
  return made;
}

// A chart draws itself again whenever its width changes.
function chart(parent, title, height, paint) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  parent.append(svg);
  let painted = 0;
  const repaint = () => {
    const width = Math.floor(parent.clientWidth - 28);
    if (width === painted || width <= 0) return;
    painted = width;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    paint(svg, width, height);
  };
  repaint();
  new ResizeObserver(repaint).observe(parent);
}

function showTip(event, text) {
  tip.hidden = false;
  tip.textContent = text;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(x, 8)}px`;
  tip.style.top = `${Math.max(event.clientY - tip.offsetHeight - 12, 8)}px`;
}

// Scales

function linear(low, high, from, to) {
  return (value) => from + (value - low) / (high - low || 1) * (to - from);
}

function steps(high, wanted = 4) {
  const raw = (high || 1) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((each) => each * power >= raw) * power;
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, n) => n * step);
}

// Charts over time: lines, or areas that stand on one another

function overTime(parent, title, series, { format, logarithmic = false, stacked = false, top = null }) {
  const times = figures.times, end = times[times.length - 1];
  const sums = times.map((_, n) => series.reduce((sum, { values }) => sum + (values[n] ?? 0), 0));
  const known = (stacked ? sums : series.flatMap(({ values }) => values)).filter((value) => value !== null && value > 0);
  if (!known.length) {
    const measured = series.some(({ values }) => values.some((value) => value !== null));
    parent.append(element("p", { class: "note" }, measured ? "It was 0 all the time." : "Nothing was measured."));
    return;
  }
  const high = top ?? Math.max(...known) * 1.05, low = logarithmic ? Math.min(...known) / 1.3 : 0;
  chart(parent, title, 210, (svg, width, height) => {
    const x = linear(0, end, LEFT, width - RIGHT);
    const plain = linear(logarithmic ? Math.log10(low) : low, logarithmic ? Math.log10(high) : high, height - BOTTOM, TOP);
    const y = logarithmic ? (value) => plain(Math.log10(Math.max(value, low))) : plain;
    const marks = logarithmic ? decades(low, high) : steps(high);
    axes(svg, width, height, x, y, end, marks, format);
    for (const stall of figures.stalls) {
      draw(svg, "rect", { class: "band", x: x(Math.min(stall.at, end)), y: TOP, height: height - TOP - BOTTOM,
        width: Math.max(x(Math.min(stall.at + stall.seconds, end)) - x(Math.min(stall.at, end)), 2) });
    }
    const base = times.map(() => 0);
    for (const { values, colour } of series) {
      if (stacked) {
        const upper = times.map((_, n) => base[n] + (values[n] ?? 0));
        const there = times.map((t, n) => `${x(t)},${y(upper[n])}`), back = times.map((t, n) => `${x(t)},${y(base[n])}`);
        draw(svg, "polygon", { points: [...there, ...back.reverse()].join(" "), style: `fill:${colour};opacity:.85` });
        upper.forEach((value, n) => { base[n] = value; });
      } else {
        for (const piece of pieces(times, values)) {
          const points = piece.map(([t, value]) => `${x(t)},${y(value)}`);
          draw(svg, "polyline", { class: "line", points: points.join(" "), style: `stroke:${colour}` });
          if (piece.length === 1) draw(svg, "circle", { cx: x(piece[0][0]), cy: y(piece[0][1]), r: 2.5, style: `fill:${colour}` });
        }
      }
    }
    follow(svg, width, height, x, (n) => [`at ${digits(times[n], "s")}`,
      ...series.map(({ name, values }) => `${name}  ${format(values[n])}`)].join("\n"));
  });
}

function decades(low, high) {
  const marks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const each of high / low < 30 ? [1, 2, 5] : [1]) {
      const mark = each * 10 ** power;
      if (mark >= low && mark <= high) marks.push(mark);
    }
  }
  return marks;
}

// A line has a gap where nothing was measured.
function pieces(times, values) {
  const found = [[]];
  times.forEach((t, n) => {
    if (values[n] === null) found.push([]);
    else found[found.length - 1].push([t, values[n]]);
  });
  return found.filter((piece) => piece.length);
}

function axes(svg, width, height, x, y, end, marks, format) {
  for (const mark of marks) {
    draw(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(mark), y2: y(mark) });
    draw(svg, "text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, format(mark));
  }
  for (const mark of steps(end, width / 110)) {
    draw(svg, "text", { x: x(mark), y: height - 6, "text-anchor": mark === 0 ? "start" : "middle" }, `${+mark.toPrecision(6)} s`);
  }
}

function follow(svg, width, height, x, describe) {
  const cross = draw(svg, "line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  const hit = draw(svg, "rect", { x: LEFT, y: 0, width: Math.max(width - LEFT - RIGHT, 0), height, fill: "transparent" });
  hit.addEventListener("pointermove", (event) => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    let nearest = 0;
    figures.times.forEach((t, n) => { if (Math.abs(x(t) - at) < Math.abs(x(figures.times[nearest]) - at)) nearest = n; });
    cross.setAttribute("x1", x(figures.times[nearest]));
    cross.setAttribute("x2", x(figures.times[nearest]));
    cross.setAttribute("visibility", "visible");
    showTip(event, describe(nearest));
  });
  hit.addEventListener("pointerleave", () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); });
}

// Bars

function distribution(parent, title, bySource) {
  const sources = Object.keys(bySource), bounds = [...new Set(sources.flatMap((each) => bySource[each].map(([bound]) => bound)))];
  bounds.sort((a, b) => a - b);
  if (!bounds.length) {
    parent.append(element("p", { class: "note" }, "Nothing was measured."));
    return;
  }
  const counts = bounds.map((bound) => sources.map((each) => (bySource[each].find(([other]) => other === bound) ?? [0, 0])[1]));
  const high = Math.max(...counts.map((each) => each.reduce((a, b) => a + b)));
  chart(parent, title, 210, (svg, width, height) => {
    const y = linear(0, high * 1.05, height - BOTTOM, TOP), room = (width - LEFT - RIGHT) / bounds.length;
    for (const mark of steps(high)) {
      draw(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(mark), y2: y(mark) });
      draw(svg, "text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, number(mark));
    }
    const every = Math.ceil(bounds.length / Math.max((width - LEFT) / 64, 1));
    bounds.forEach((bound, n) => {
      let below = 0;
      counts[n].forEach((count, source) => {
        if (!count) return;
        const bar = draw(svg, "rect", { x: LEFT + n * room + 1, width: Math.max(room - 2, 1), y: y(below + count),
          height: y(below) - y(below + count), style: `fill:${COLOURS[source % 8]}` });
        bar.addEventListener("pointermove", (event) => showTip(event, `below ${time(bound)}\n${sources[source]}  ${number(count)}`));
        bar.addEventListener("pointerleave", () => { tip.hidden = true; });
        below += count;
      });
      if (n % every === 0) draw(svg, "text", { x: LEFT + (n + 1) * room, y: height - 6, "text-anchor": "middle" }, time(bound));
    });
  });
}

function slowest(parent, rows) {
  const high = Math.max(...rows.map((row) => row.longest));
  chart(parent, "Slowest callbacks", rows.length * 40 + 4, (svg, width) => {
    const x = linear(0, high, 0, width - 76);
    rows.forEach((row, n) => {
      const top = n * 40;
      const letters = Math.max(Math.floor(width / 7.2), 8), where = row.place && ` · ${short(row.place)}`;
      const label = row.name + where;
      draw(svg, "text", { class: "name", x: 0, y: top + 14 }, label.length > letters ? `${label.slice(0, letters - 1)}…` : label);
      const bar = draw(svg, "rect", { x: 0, y: top + 20, height: 12, rx: 3, width: Math.max(x(row.longest), 2),
        style: `fill:${COLOURS[row.kind === "task" ? 0 : 1]}` });
      draw(svg, "text", { x: Math.max(x(row.longest), 2) + 6, y: top + 30 }, time(row.longest));
      bar.addEventListener("pointermove", (event) => showTip(event, `${row.name}\n${row.place}\nlongest  ${time(row.longest)}\nmean  ${time(row.mean)}`));
      bar.addEventListener("pointerleave", () => { tip.hidden = true; });
    });
  });
}

// Tables: sorted by a click on a heading, filtered by the text in the header; a row may have details. All of that is kept
// when the page is drawn again.

const view = { filter: "", frozen: false, sorting: {}, opened: new Set() };

function table(title, note, columns, rows, { details = null } = {}) {
  const wanted = view.filter.toLowerCase();
  const shown = rows.filter((row) => columns.some(([, text]) => text(row).toLowerCase().includes(wanted)));
  const [by, reverse] = view.sorting[title] ?? [-1, false];
  if (by >= 0) {
    const key = columns[by][3] ?? columns[by][1];
    shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (reverse ? 1 : -1) * (columns[by][2] ? 1 : -1));
  }
  const head = element("tr");
  columns.forEach(([name, , isNumber], n) => {
    const button = element("button", { type: "button" }, name + (n === by ? (reverse ? " ▲" : " ▼") : ""));
    button.addEventListener("click", () => { view.sorting[title] = [n, n === by && !reverse]; render(); });
    head.append(element("th", { class: isNumber ? "number" : "" }, button));
  });
  const body = element("tbody");
  for (const row of shown) {
    const line = element("tr");
    columns.forEach(([, text, isNumber], n) => {
      const cell = element("td", isNumber ? { class: "number" } : { title: text(row) });
      if (details !== null && n === 0) cell.append(folded(`${title} ${text(row)}`, text(row), row, details));
      else cell.append(text(row));
      line.append(cell);
    });
    body.append(line);
  }
  const parent = card(title, note, { wide: true });
  parent.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)));
}

function folded(key, summary, row, details) {
  const pre = element("pre"), made = element("details", {}, element("summary", {}, summary), pre);
  made.open = view.opened.has(key);
  if (made.open) details(row, pre);
  made.addEventListener("toggle", () => {
    if (made.open) {
      view.opened.add(key);
      details(row, pre);
    } else view.opened.delete(key);
  });
  return made;
}

const frames = (stack) => stack.map((place) => `  ${place}`).join("\n") || "  no stack";

const seen = new Map();  // what the server told of a task, by its id

function about({ example }, pre) {
  const name = `oldest: ${example.name} (${example.coroutine})`;
  const write = ({ awaiters = [], stack = example.stack, history = null } = {}) => {
    const lines = [name, ...awaiters.map((other) => `awaited by ${other}`), "", frames(stack)];
    if (history) lines.push("", ...history.map(([at, what, code]) => `  ${at.toFixed(6)} s  ${what}  ${code}`));
    pre.textContent = lines.join("\n");
  };
  write(seen.get(example.id));
  if (!Number(document.body.dataset.interval) || view.frozen) return;
  fetch(`task${location.search}&id=${example.id}`).then((answer) => answer.ok ? answer.json() : undefined).then((task) => {
    if (task) {
      seen.set(example.id, task);
      write(task);
    }
  }).catch(() => {});  // the page says that the command has ended
}

function why(stall, pre) {
  const lines = [stall.explanation, stall.holder && `GIL held by ${stall.holder}`, stall.awaited && `awaited by ${stall.awaited}`,
    stall.request && `request: ${stall.request}`];
  pre.textContent = [...lines.filter(Boolean), "", frames(stall.stack)].join("\n");
}

// The page

function drawAll() {
  const whole = figures.whole, times = (name, label, colour) => ({ name: label, values: figures[name], colour: COLOURS[colour] });
  const legend = (series) => series.map(({ name, colour }) => [name, colour]);
  document.title = `loopcore: ${figures.title}`;
  document.querySelector("h1").textContent = figures.title;
  document.querySelector(".facts").textContent = figures.facts.join(" · ");
  tiles.replaceChildren();
  for (const [name, value, bad] of [
    ["state", whole.state, whole.state === "stalled"], ["utilization", share(whole.utilization)],
    ["queue delay, median", time(whole.delay50)], ["queue delay, p99", time(whole.delay99)], ["tick, p99", time(whole.tick99)],
    ["callbacks a second", number(whole.callbacks)], ["tasks", number(whole.tasks)], ["tasks failed", number(whole.failed), whole.failed > 0],
    ["open connections", number(whole.sockets)], ["accepted a second", number(whole.accepted)],
    ["received and sent", `${size(whole.bytes)}/s`], ["stalls", number(whole.stalls), whole.stalls > 0],
  ]) {
    tiles.append(element("div", { class: bad ? "tile bad" : "tile" }, element("b", {}, value), element("span", {}, name)));
  }

  overTime(card("Utilization", "The share of time in which the loop worked instead of waiting. Stalls are shaded."), "Utilization over time",
    [times("utilization", "utilization", 0)], { format: share, top: 1 });

  const delays = [times("delay99", "p99", 1), times("delay50", "median", 0)];
  overTime(card("Queue delay", "From when a callback is ready until it runs.", { legend: legend(delays) }), "Queue delay over time", delays,
    { format: time, logarithmic: true });

  const thread = [times("cpu", "on a processor", 2), times("runQueue", "in the kernel's run queue", 5), times("offCpu", "off CPU (at least)", 4)];
  overTime(card("The loop's thread", "Shares of time. Off CPU: in blocking calls, or waiting for a lock or the GIL.", { legend: legend(thread) }),
    "Time of the thread", thread, { format: share, stacked: true });
  overTime(card("Wait for the GIL", "An estimate: how long a thread that wakes waits until other threads release the GIL."), "Wait for the GIL",
    [times("gil", "mean", 3)], { format: time });

  const rates = [times("received", "received", 2), times("sent", "sent", 3)];
  overTime(card("Callbacks", "Callbacks and steps of tasks a second."), "Callbacks a second", [times("callbacks", "callbacks", 0)], { format: number });
  overTime(card("Transports", "Bytes a second.", { legend: legend(rates) }), "Bytes a second", rates, { format: size });

  if (figures.events.length) {
    table("Stalls", "Times in which the loop did not move, with their cause, and callbacks that were slow.", [
      ["in", (row) => short(row.place)], ["at", (row) => time(row.at), true, (row) => row.at], ["for", (row) => time(row.seconds), true, (row) => row.seconds],
      ["task", (row) => row.task || "-"], ["cause", (row) => row.cause],
    ], figures.events, { details: why });
  }
  if (figures.sites.length) {
    table("Tasks by await site", "Where tasks are suspended; ≥: the oldest was created before watching began.", [
      ["site", (row) => short(row.place)], ["tasks", (row) => number(row.count), true, (row) => row.count],
      ["oldest", (row) => (row.atLeast ? "≥ " : "") + time(row.oldest), true, (row) => row.oldest ?? 0], ["state", (row) => row.state],
      ["waits for", (row) => row.waitsFor || "-"],
    ], figures.sites, { details: about });
  }
  if (figures.slowest.length) {
    slowest(card("Slowest callbacks", "The longest single step of each coroutine and callback.",
      { wide: true, legend: [["steps of tasks", COLOURS[0]], ["callbacks", COLOURS[1]]] }), figures.slowest);
  }
  const highest = (phase) => Math.max(...figures.phases[phase]);
  const active = Object.keys(figures.phases).filter((phase) => phase !== "poll");
  const negligible = Math.min(0.002, Math.max(...active.map(highest)) / 10);  // in an idle program all are below 0.002
  const phases = active.filter((phase) => highest(phase) > negligible)
    .map((name, n) => ({ name, values: figures.phases[name], colour: COLOURS[n % 8] }));
  overTime(card("Phases", "The share of time that each phase of the tick takes; the rest is the wait in the poll phase.", { legend: legend(phases) }),
    "Time by phase", phases, { format: share, stacked: true });

  const sources = Object.keys(figures.queued);
  distribution(card("Queue delay by source", "How many of the callbacks that were timed waited how long.",
    { legend: sources.map((name, n) => [name, COLOURS[n % 8]]) }), "Distribution of the queue delay by source", figures.queued);

  table("Busiest", "Coroutines and callbacks by run time.", [
    ["name", (row) => row.name], ["kind", (row) => row.kind], ["tasks", (row) => row.tasks ? number(row.tasks) : "-", true, (row) => row.tasks],
    ["a second", (row) => number(row.rate), true, (row) => row.rate], ["share of time", (row) => share(row.busy), true, (row) => row.busy],
    ["mean", (row) => time(row.mean), true, (row) => row.mean], ["longest", (row) => time(row.longest), true, (row) => row.longest],
    ["defined at", (row) => short(row.place)],
  ], figures.busiest);
}

let pointer = null;
addEventListener("pointermove", (event) => { pointer = event; });

function render() {
  main.style.minHeight = `${main.offsetHeight}px`;  // keeps the place to which the page is scrolled
  main.replaceChildren(tiles);
  tip.hidden = true;
  drawAll();
  main.style.minHeight = "";
  const under = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY);
  if (under) under.dispatchEvent(new PointerEvent("pointermove", { clientX: pointer.clientX, clientY: pointer.clientY, bubbles: true }));
}

// Live: `loopcore top --page` serves the figures as well

const live = document.querySelector(".live"), state = document.querySelector(".state");

async function poll() {
  if (document.hidden || view.frozen) return true;
  let answer;
  try {
    answer = await fetch(`figures${location.search}`, { cache: "no-store" });
  } catch {
    state.textContent = "The command loopcore top has ended.";
    return false;
  }
  const told = await answer.json();
  if (answer.ok && !view.frozen) {
    figures = told;
    render();
  }
  state.textContent = answer.ok ? "live" : told.error;
  return answer.ok || answer.status === 503;
}

async function keepFollowing(seconds) {
  while (await poll()) await new Promise((done) => setTimeout(done, seconds * 1000));
  state.classList.add("bad");
}

document.querySelector("#filter").addEventListener("input", (event) => { view.filter = event.target.value; if (figures) render(); });
document.querySelector("#freeze").addEventListener("click", (event) => {
  view.frozen = !view.frozen;
  event.target.setAttribute("aria-pressed", view.frozen);
  state.textContent = view.frozen ? "frozen" : "live";
});
if (figures) render();
const interval = Number(document.body.dataset.interval);
if (interval) {
  live.hidden = false;
  keepFollowing(interval);
}
