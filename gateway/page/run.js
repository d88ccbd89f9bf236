// One Run, as it happens: read once, then followed, and drawn as often as the screen is.

import { aboutRun, cancelReceipt, origin, totals, Waits } from "/page/about.js";
import { get, runPath } from "/page/api.js";
import { Buttons } from "/page/buttons.js";
import { forkDialog } from "/page/changes.js";
import { actionCard } from "/page/deciding.js";
import { alarm, badge, button, errorBox, fill, h, say } from "/page/dom.js";
import { RunState } from "/page/state.js";
import { Story } from "/page/story.js";
import { follow } from "/page/stream.js";
import { Timeline } from "/page/timeline.js";

const NEAR = 80; // pixels from the end at which the reader counts as being there
const HIDDEN_MS = 30_000; // a tab that nobody looks at lets its connection go: browsers have six

const CONNECTION = {
  connecting: "Connecting …", live: "Live", ended: "", lost: "The connection is lost; it is tried again.",
};

export function showRun(main, runId, config, whyNot) {
  const view = new RunView(main, runId, config, whyNot);
  view.begin();
  return () => view.leave();
}

class RunView {
  constructor(main, runId, config, whyNot) {
    Object.assign(this, { main, runId, config, whyNot });
    this.left = new AbortController();
    this.cards = new Map(); // of actions, by id
    this.held = null; // what happens while the Run is read again
    this.stopFollowing = () => {};
  }

  leave() {
    this.left.abort();
    this.stopFollowing();
    clearInterval(this.clock);
    clearTimeout(this.hiding);
  }

  get title() {
    return h("h1", { tabindex: "-1" }, "Run ", h("span", { class: "id" }, this.runId));
  }

  async begin() {
    fill(this.main, this.title, h("p", {}, "Reading …"));
    try {
      this.state = new RunState(await get(runPath(this.runId), {}, this.left.signal));
    } catch (problem) {
      if (this.left.signal.aborted) return;
      fill(this.main, this.title, errorBox({ code: problem.code, message: problem.message, hint: problem.hint }),
        h("p", { class: "buttons" }, button("Try again", () => this.begin()), h("a", { href: "#/" }, "All Runs")));
      return;
    }
    this.build();
    this.headChanged = true;
    this.draw(true);
    this.clock = setInterval(() => this.tick(), 1000);
    document.addEventListener("visibilitychange", () => this.lookedAt(), { signal: this.left.signal });
    if (!document.hidden) this.follow();
  }

  // Following

  follow() {
    this.stopFollowing();
    this.isFollowing = true;
    this.stopFollowing = follow(runPath(this.runId, "events"), this.state.run.last_event,
      (item) => this.take(item), (stands, problem) => this.stands(stands, problem));
  }

  lookedAt() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => (this.stopFollowing(), (this.isFollowing = false)), HIDDEN_MS);
    } else if (!this.isFollowing || this.state.run.is_terminal) {
      this.readAgain();
    }
  }

  stands(stands, problem) {
    this.connection.className = `connection ${stands}`;
    fill(this.connection, stands === "refused" ? problem.message : CONNECTION[stands]);
    if (stands === "lost") say(CONNECTION.lost);
    if (stands === "refused") alarm(problem);
    if (stands === "ended" && !this.state.run.is_terminal) this.refresh();
  }

  take(item) {
    if (this.held) return void this.held.push(item);
    const changed = this.state.take(item);
    if (changed === null) return void (item.run ? this.reloaded() : this.refresh());
    if (item.sequence_number !== undefined) {
      this.headChanged = true;
      announce(item, this.state);
    }
    this.story.changes(changed);
    this.schedule();
  }

  /** Read the Run again; what happens meanwhile is taken afterwards. */
  async refresh() {
    if (this.held) return;
    this.held = [];
    try {
      this.state.load(await get(runPath(this.runId), {}, this.left.signal));
    } catch (problem) {
      if (!this.left.signal.aborted) alarm(problem);
    }
    const held = this.held;
    this.held = null;
    if (this.left.signal.aborted) return;
    this.reloaded();
    held.forEach((item) => this.take(item));
  }

  async readAgain() {
    await this.refresh();
    if (!this.left.signal.aborted) this.follow();
  }

  reloaded() {
    this.story.changesAll();
    this.headChanged = true;
    this.schedule();
    if (this.state.run.is_terminal) say(`The Run is ${this.state.run.status}.`);
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const soon = document.hidden ? (act) => setTimeout(act, 200) : requestAnimationFrame;
    soon(() => {
      this.scheduled = false;
      if (!this.left.signal.aborted) this.draw();
    });
  }

  // Drawing

  build() {
    this.status = h("span", {});
    this.connection = h("span", { class: "connection" });
    this.about = h("div", {});
    this.waits = new Waits();
    this.failure = h("div", {});
    this.asks = h("div", { class: "asking" });
    this.totals = h("div", {});
    this.origin = h("div", {});
    this.timeline = new Timeline((number) => this.story.jump(number));
    this.buttons = new Buttons(this.state, this.whyNot("write"), () => this.readAgain());
    const fork = (number) => forkDialog(this.state.run, number);
    this.story = new Story(this.state, { fork, why: this.whyNot("write") });
    const end = h("div", { class: "end" });
    const latest = button("Latest ↓", () => end.scrollIntoView(), { kind: "latest" });
    const wide = matchMedia("(min-width: 62rem)").matches;
    const folded = (title, content) => h("details", { class: "card", open: wide }, h("summary", {}, h("h2", {}, title)), content);
    fill(this.main,
      h("div", { class: "runhead" },
        this.title, h("p", { class: "state" }, this.status, " ", this.connection),
        this.about, this.buttons.element, this.waits.element, this.failure),
      h("div", { class: "columns" },
        h("aside", { "aria-label": "About the Run" },
          folded("Totals", this.totals), folded("Timeline", this.timeline.element), folded("Origin", this.origin)),
        h("div", { class: "story" },
          h("h2", { class: "unseen" }, "What happened"),
          this.story.earlier, this.story.list, this.asks, this.story.output)),
      end, latest);
    const sees = new IntersectionObserver((seen) => {
      this.isAtEnd = seen.at(-1).isIntersecting;
      latest.classList.toggle("shown", !this.isAtEnd);
    }, { rootMargin: `0px 0px ${NEAR}px` });
    sees.observe(end);
    this.left.signal.addEventListener("abort", () => sees.disconnect());
  }

  draw(first = false) {
    const follows = !first && this.isAtEnd && (this.wasOpen || !this.state.run.is_terminal);
    this.story.draw();
    if (this.headChanged) this.drawHead();
    this.headChanged = false;
    if (follows) {
      this.story.trim();
      window.scrollTo(0, document.documentElement.scrollHeight);
    }
    this.wasOpen = !this.state.run.is_terminal;
  }

  drawHead() {
    const { run, waiting } = this.state;
    document.title = `${waiting?.action_ids ? "(!) " : ""}${run.status} · ${run.run_id} – Perdure`;
    fill(this.status, badge(run.status), run.stop_reason && run.stop_reason !== "end_turn" && ` ${run.stop_reason}`);
    fill(this.about, aboutRun(run, this.config));
    fill(this.failure, run.error && errorBox(run.error), run.cancel && cancelReceipt(run));
    this.waits.update(waiting);
    this.buttons.update();
    this.drawActions();
    this.story.drawNotes();
    this.story.drawOutput();
    // What stands aside is drawn once a second while the Run goes on.
    if (run.is_terminal || !this.asideDrawn) this.drawAside();
  }

  drawAside() {
    this.asideDrawn = true;
    fill(this.totals, totals(this.state.run));
    this.timeline.update(this.state);
    const shape = JSON.stringify([this.state.run.steps.length, this.state.run.last_event, this.state.run.metadata]);
    if (shape === this.originShape) return;
    this.originShape = shape;
    // A link that has the focus keeps it.
    if (!this.origin.contains(document.activeElement)) fill(this.origin, origin(this.state.run));
  }

  drawActions() {
    const { run, openActions } = this.state;
    const ids = new Set(openActions.map((action) => action.action_id));
    for (const [id, card] of this.cards) {
      if (ids.has(id)) continue;
      if (card.contains(document.activeElement)) this.main.querySelector("h1").focus({ preventScroll: true });
      card.remove();
      this.cards.delete(id);
    }
    for (const action of openActions) {
      if (this.cards.has(action.action_id)) continue;
      const step = run.steps.findLast((each) => each.kind === "model");
      const subject = { input: run.told_input ?? run.input_message, output: step?.text }[action.about];
      const card = actionCard(run, action, subject, this.whyNot("approve"));
      this.cards.set(action.action_id, card);
      this.asks.append(card);
      say(`The Run waits for you: ${action.name}.`);
    }
  }

  tick() {
    const { run, waiting } = this.state;
    if (document.hidden || run.is_terminal) return;
    for (let at = run.steps.length - 1; at >= 0 && run.steps[at].turn === run.turn; at -= 1) {
      if (run.steps[at].status === "running") this.story.views.get(this.state.owner(at + 1))?.updateMeta();
    }
    this.waits.update(waiting);
    this.drawAside();
  }
}

/** Tell those who listen: what ended, and what is waited for; never every word. */
function announce(item, state) {
  const step = state.run.steps[item.step - 1];
  if (item.type === "run.step.completed") say(`Step ${item.step}, ${step.name}: completed.`);
  if (item.type === "run.step.failed") say(`Step ${item.step}, ${step.name}: failed. ${item.error.message}`);
}
