// The Steps of a Run in their order, with what people said between them: the latest, more on demand.

import { button, fill, h } from "/page/dom.js";
import { fileList, StepView } from "/page/step.js";
import { indented, several } from "/page/words.js";

const PAGE = 60; // Steps that are shown at first, and more at a time
const KEPT = 400; // model Steps that stay in the page while it follows a Run to its end

export class Story {
  /** `tools` is what each Step offers: `fork(number)`, or `why` not. */
  constructor(state, tools) {
    this.state = state;
    this.tools = tools;
    this.views = new Map(); // of model Steps, by number
    this.changed = new Set();
    this.from = this.beginning(state.run.steps.length - PAGE); // so many Steps are left out
    this.known = this.from;
    this.earlier = button("", () => this.showEarlier(), { kind: "plain" });
    this.list = h("ol", { class: "steps", "aria-label": "Steps" });
    this.output = h("section", { class: "card output", hidden: true, "aria-labelledby": "output-title" });
  }

  /** Say that Steps are no longer as they are shown. */
  changes(numbers) {
    for (const number of numbers) this.changed.add(number);
  }

  /** Say that any of them may have changed. */
  changesAll() {
    for (const [number, view] of this.views) {
      if (this.state.run.steps[number - 1] && this.state.owner(number) === number) this.changed.add(number);
      else (view.element.remove(), this.views.delete(number));
    }
  }

  draw() {
    const { run } = this.state;
    for (const step of run.steps.slice(this.known)) this.changed.add(this.state.owner(step.number));
    this.known = run.steps.length;
    for (const number of [...this.changed].sort((one, two) => one - two)) this.drawStep(number);
    this.changed.clear();
  }

  drawStep(number) {
    const view = this.views.get(number);
    if (view) return view.update();
    if (number <= this.from) return;
    const made = new StepView(this.state, number, this.tools);
    this.list.insertBefore(made.element, this.following(number));
    this.views.set(number, made);
  }

  following(number) {
    let next = Infinity;
    for (const each of this.views.keys()) if (each > number && each < next) next = each;
    return this.views.get(next)?.element ?? null;
  }

  /** A number of Steps to leave out, so that no turn is cut in two. */
  beginning(from) {
    while (from > 0 && this.state.ofStep.has(from + 1)) from -= 1;
    return Math.max(0, from);
  }

  showEarlier() {
    const before = this.from;
    this.from = this.beginning(this.from - PAGE);
    for (const step of this.state.run.steps.slice(this.from, before)) this.changed.add(this.state.owner(step.number));
    this.draw();
    this.drawNotes();
  }

  /** Let go of the oldest while the reader is at the end, so that a long Run does not fill the page. */
  trim() {
    while (this.views.size > KEPT) {
      const [oldest, next] = [...this.views.keys()].sort((one, two) => one - two);
      this.views.get(oldest).element.remove();
      this.views.delete(oldest);
      this.from = next - 1;
    }
  }

  /** Go to a Step, wherever it is. */
  jump(number) {
    while (this.from >= this.state.owner(number)) this.showEarlier();
    const place = document.getElementById(`step-${number}`);
    place?.scrollIntoView({ block: "center" });
    place?.focus({ preventScroll: true });
  }

  /** What people said, and what was summed up. */
  drawNotes() {
    const { run } = this.state;
    this.earlier.hidden = this.from === 0;
    this.earlier.textContent = `${several(this.from, "earlier Step")}: show more`;
    const notes = [
      ["input", 0, "Input", run.input_message, run.input_files],
      ...run.follow_ups.map((each, at) => [`said-${at}`, each.after_step, "Message", each.text, each.files]),
      ...run.compactions.map((each, at) => [`sum-${at}`, each.step, "Older messages were summed up", each.summary]),
    ].filter(([, after]) => this.from === 0 || after > this.from);
    const keys = new Set(notes.map(([key]) => key));
    const shown = new Set();
    for (const each of this.list.querySelectorAll("[data-note]")) {
      if (keys.has(each.dataset.note)) shown.add(each.dataset.note);
      else each.remove();
    }
    for (const [key, after, title, text, files] of notes) {
      if (shown.has(key)) continue;
      const said = h("li", { class: `step user ${key === "input" ? "" : "followup"}`, "data-note": key },
        h("h3", {}, title), h("div", { class: "said", dir: "auto" }, text), fileList(files));
      this.list.insertBefore(said, this.following(after ? this.state.owner(after) : 0));
    }
  }

  drawOutput() {
    const { output } = this.state.run;
    this.output.hidden = output === null;
    if (output === null || this.outputShown === output) return;
    this.outputShown = output;
    const json = indented(output);
    fill(this.output, h("h2", { id: "output-title" }, "Output"),
      json ? h("pre", { class: "exact", dir: "ltr" }, json) : h("div", { class: "said", dir: "auto" }, output));
  }
}
