// When what happened: a bar for each Step, and for what was waited for.

import { fill, h } from "/page/dom.js";
import { between, duration } from "/page/words.js";

const ROWS = 150; // shown at once; the latest

export class Timeline {
  /** `jump(number)` goes to a Step. */
  constructor(jump) {
    this.rows = new Map();
    this.list = h("ol", { class: "bars", tabindex: "0", "aria-label": "Steps and waits, in order" });
    this.list.addEventListener("click", (event) => {
      const number = Number(event.target.closest("[data-step]")?.dataset.step);
      if (!number) return;
      event.preventDefault();
      jump(number);
    });
    this.cut = h("p", { class: "quiet" });
    this.scale = h("p", { class: "scale quiet" });
    this.element = h("div", { class: "timeline" }, this.cut, this.list, this.scale);
  }

  update(state) {
    const { run } = state;
    const begin = Date.parse(run.created_at);
    const end = run.completed_at ? Date.parse(run.completed_at) : Date.now();
    const all = spans(state);
    const shown = all.slice(-ROWS);
    const keys = new Set(shown.map((each) => each.key));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.rows.delete(key);
    }
    shown.forEach((span, at) => {
      let row = this.rows.get(span.key);
      if (!row) {
        row = newRow(span);
        this.list.insertBefore(row.element, this.list.children[at] ?? null);
        this.rows.set(span.key, row);
      }
      const until = span.to ? Date.parse(span.to) : end;
      const from = Date.parse(span.from);
      row.bar.className = `bar ${span.status}`;
      row.bar.style.setProperty("--from", (from - begin) / 1000);
      row.bar.style.setProperty("--to", (until - begin) / 1000);
      fill(row.took, duration(until - from), span.attempts > 1 && ` · ${span.attempts} attempts`);
      marks(row, span, begin);
    });
    this.list.style.setProperty("--span", Math.max((end - begin) / 1000, 0.001));
    fill(this.cut, all.length > shown.length && `The latest ${ROWS} of ${all.length}.`);
    fill(this.scale, `0 to ${duration(end - begin)}`);
  }
}

/** What there is to draw, by its beginning. */
function spans({ run, retries, waiting }) {
  const found = [];
  const add = (key, name, from, to, status, more = {}) => from && found.push({ key, name, from, to, status, ...more });
  if (run.started_at && between(run.created_at, run.started_at) > 50) {
    add("queue", "waited to begin", run.created_at, run.started_at, "waiting");
  } else if (!run.started_at && !run.is_terminal) {
    add("queue", "waits to begin", run.created_at, null, "waiting");
  }
  for (const step of run.steps.slice(run.copied_steps)) {
    const since = retries.get(step.number) ?? [];
    const attempts = Math.max(step.attempt ?? 1, since.at(-1)?.attempt ?? 1);
    const name = `${step.number} ${step.kind === "model" ? "model" : step.name}`;
    add(`step-${step.number}`, name, step.started_at, step.completed_at, step.status, { attempts, since, step: step.number });
    if (step.action) addWait(add, step.action);
  }
  for (const call of run.tool_calls) if (call.action) addWait(add, call.action);
  if (waiting && ["pause", "limit"].includes(waiting.type)) add("waits", waiting.type, waiting.since, null, "waiting");
  return found.filter((span) => Date.parse(span.from) >= Date.parse(run.created_at) - 1000)
    .sort((one, two) => Date.parse(one.from) - Date.parse(two.from));
}

const addWait = (add, action) =>
  add(`wait-${action.action_id}`, `waits: ${action.name}`, action.asked_at, action.resolution?.at ?? null, "waiting");

function newRow(span) {
  const name = span.step
    ? h("a", { href: `#step-${span.step}`, "data-step": span.step }, span.name)
    : h("span", {}, span.name);
  const bar = h("span", { class: "bar" });
  const took = h("span", { class: "took quiet" });
  return { element: h("li", {}, name, h("span", { class: "lane", "aria-hidden": "true" }, bar), took), bar, took };
}

function marks(row, span, begin) {
  const lane = row.bar.parentElement;
  while (lane.children.length - 1 < (span.since?.length ?? 0)) {
    const mark = h("span", { class: "mark" });
    mark.style.setProperty("--from", (Date.parse(span.since[lane.children.length - 1].at) - begin) / 1000);
    lane.append(mark);
  }
}
