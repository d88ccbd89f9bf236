// One model Step with the calls that it asked for; changed in place, so that nothing jumps.

import { get, runPath } from "/page/api.js";
import { alarm, badge, button, errorBox, fill, h, setWhy, time } from "/page/dom.js";
import { between, bytes, count, duration, escaped, money, several, shownArguments, shownResult, visible } from "/page/words.js";

const OPEN_CHARS = 1500; // longer results are folded
const PIECE_CHARS = 4000; // of a text that grows: one node each, so that only the last is laid out again

const fileList = (files) =>
  files?.length > 0 && h("ul", { class: "files", "aria-label": "Files" }, files.map((file) =>
    h("li", {}, `${file.name || "file"} · ${file.media_type ?? ""} · ${bytes(file.size ?? file.bytes ?? 0)}`)));

/** A text that grows at its end. */
class Growing {
  constructor(element) {
    this.element = element;
    this.said = "";
  }

  set(text) {
    if (!text.startsWith(this.said)) {
      this.element.replaceChildren();
      this.said = "";
    }
    let rest = visible(text.slice(this.said.length));
    this.said = text;
    while (rest) {
      let last = this.element.lastChild;
      if (!last || last.length >= PIECE_CHARS) {
        last = document.createTextNode("");
        this.element.append(last);
      }
      const piece = rest.slice(0, PIECE_CHARS);
      last.appendData(piece);
      rest = rest.slice(piece.length);
    }
  }
}

export class StepView {
  constructor(state, number, tools) {
    this.state = state;
    this.number = number;
    this.tools = tools; // { fork, why }
    this.calls = new Map();
    this.head = h("div", { class: "head" });
    this.title = h("h3", { id: `title-${number}` });
    this.meta = h("p", { class: "meta" });
    this.fork = this.forkButton(number);
    this.head.append(this.title, this.meta, this.fork);
    this.retry = h("p", { class: "retry", hidden: true });
    this.thoughts = new Growing(h("div", { class: "thoughts", dir: "auto" }));
    this.reasoning = h("details", { class: "reasoning", hidden: true },
      h("summary", {}, "Reasoning"), this.thoughts.element);
    this.said = new Growing(h("div", { class: "said", dir: "auto" }));
    this.wait = h("p", { class: "wait quiet", hidden: true }, "The model has not said anything yet.");
    this.failure = h("div", {});
    this.list = h("ul", { class: "calls", "aria-label": "Tool calls" });
    this.element = h("li", { class: "step", id: `step-${number}`, tabindex: "-1", "aria-labelledby": `title-${number}` },
      this.head, this.retry, this.reasoning, this.said.element, this.wait, this.failure, this.list);
    this.update();
  }

  forkButton(number) {
    return button("Fork", () => this.tools.fork(number), { kind: "plain small", name: `Fork from Step ${number}`, why: this.tools.why });
  }

  update() {
    const step = this.state.run.steps[this.number - 1];
    const draft = this.state.drafts.get(this.number);
    const running = step.status === "running";
    const what = { compact: "summing up", conclude: "concluding" }[step.purpose] ?? (step.kind === "check" ? "check" : "model");
    fill(this.title, `Step ${step.number}`, h("span", { class: "kind" }, ` ${what} `), h("span", { class: "name" }, step.alias ? `${step.alias} (${step.name})` : step.name), " ", badge(step.status));
    this.updateMeta();
    setWhy(this.fork, this.tools.why || (running ? "The Step has not ended." : ""));
    this.showRetry(step, draft);
    const words = draft && running ? said(draft, "output_text") : step.text ?? "";
    this.said.set(words);
    const { perdure_provider: _, ...kept } = { ...step.extra, ...step.echo };
    const thoughts = draft && running ? said(draft, "reasoning") : Object.values(kept).join("\n\n");
    if (thoughts) this.reasoning.hidden = false;
    if (thoughts || !running) this.thoughts.set(thoughts);
    this.wait.hidden = !running || words !== "" || thoughts !== "" || Boolean(draft?.segments.length);
    const why = step.error ?? step.unfit;
    fill(this.failure, why && errorBox(why), step.incomplete && h("p", { class: "quiet" }, "The answer was cut off here."));
    this.showCalls(running ? drafted(draft) : this.state.calls.get(this.number) ?? []);
  }

  updateMeta() {
    const step = this.state.run.steps[this.number - 1];
    const { usage } = step;
    const took = step.started_at && duration(between(step.started_at, step.completed_at));
    const shown = [
      step.status === "running" && step.started_at ? `${took} so far` : took,
      usage && `${count(usage.input_tokens)} → ${several(usage.output_tokens, "token")}`,
      usage?.cost > 0 && money(usage.cost),
      step.attempt > 1 && `attempt ${step.attempt}`,
    ].filter(Boolean).join(" · ");
    if (this.meta.textContent !== shown) fill(this.meta, shown);
    for (const call of this.calls.values()) call.tick?.();
  }

  showRetry(step, draft) {
    const told = step.status === "running" && draft?.retrying;
    this.retry.hidden = !told;
    if (!told) return;
    const waits = told.at && Date.parse(told.at) > Date.now();
    fill(this.retry, `Attempt ${told.attempt}`, waits ? [" begins at ", time(told.at)] : "",
      told.reason && `; the one before it ended: ${told.reason}`, " What it had said is void.");
  }

  showCalls(calls) {
    const seen = new Set();
    for (const call of calls) {
      const key = call.key ?? call.call_id;
      seen.add(key);
      const draft = this.state.drafts.get(call.step);
      const shape = JSON.stringify([call, draft?.progress, draft?.retrying]);
      const before = this.calls.get(key);
      if (before?.shape === shape) continue;
      const open = before && [...before.element.querySelectorAll("details")].map((each) => each.open);
      const made = callView(this, call, draft);
      made.shape = shape;
      open?.forEach((is, at) => {
        const each = made.element.querySelectorAll("details")[at];
        if (each && is) each.open = true;
      });
      if (before) before.element.replaceWith(made.element);
      else this.list.append(made.element);
      this.calls.set(key, made);
    }
    for (const [key, call] of this.calls) {
      if (seen.has(key)) continue;
      call.element.remove();
      this.calls.delete(key);
    }
    this.list.hidden = !calls.length;
  }
}

const said = (draft, kind) =>
  draft.segments.filter((each) => each.kind === kind).map((each) => each.text).join("");

/** The calls that a model is writing. */
function drafted(draft) {
  const calls = new Map();
  for (const { kind, call, name, text } of draft?.segments ?? []) {
    if (kind !== "tool_call.arguments") continue;
    const known = calls.get(call) ?? { key: `draft-${call}`, name, arguments: "", status: "written" };
    known.arguments += text;
    calls.set(call, known);
  }
  return [...calls.values()];
}

/** Whether a person is asked about a call: then it is shown where they decide. */
const isAsked = ({ action }) => action && !action.resolution && action.about === "call";

function callView(view, call, draft) {
  const step = call.step ? view.state.run.steps[call.step - 1] : null;
  const child = step?.child_run_id;
  const meta = h("span", { class: "meta" });
  const tick = () => {
    const took = step?.started_at && duration(between(step.started_at, step.completed_at));
    const shown = [step && `Step ${step.number}`, took, step?.attempt > 1 && `attempt ${step.attempt}`].filter(Boolean).join(" · ");
    if (meta.textContent !== shown) meta.textContent = shown;
  };
  tick();
  const used = call.action?.resolution?.arguments;
  const element = h("li", { class: "call", id: call.step && `step-${call.step}`, tabindex: "-1" },
    h("div", { class: "head" },
      h("h4", {}, h("code", {}, call.name), " ", call.status === "written" ? h("span", { class: "quiet" }, "is being written") : badge(call.status)),
      meta, step?.completed_at && view.forkButton(call.step)),
    !isAsked(call) && h("pre", { class: "exact", dir: "ltr" },
      call.status === "written" ? escaped(call.arguments) : shownArguments(call.arguments)),
    used && [h("p", {}, "A person changed them to:"), h("pre", { class: "exact", dir: "ltr" }, shownArguments(used))],
    call.raw_arguments && h("p", { class: "quiet" }, "The model wrote: ", h("code", {}, call.raw_arguments)),
    child && h("p", {}, "Run ", h("a", { href: `#/runs/${encodeURIComponent(child)}` }, child)),
    decision(call.action),
    draft?.retrying && step?.status === "running" && h("p", { class: "retry" }, `Attempt ${draft.retrying.attempt}`,
      draft.retrying.reason && `; the one before it ended: ${draft.retrying.reason}`),
    step?.status === "running" && progress(draft?.progress),
    call.error && errorBox(call.error),
    call.result !== null && call.result !== undefined && !call.error && result(view.state.run.run_id, call),
    fileList(call.files));
  return { element, tick: step?.status === "running" ? tick : null };
}

function decision(action) {
  if (!action) return null;
  const { resolution: how } = action;
  if (!how) return h("p", { class: "retry" }, "Waits for a person since ", time(action.asked_at), ".");
  return h("p", { class: "quiet" }, `${how.verdict}${how.by ? ` by ${how.by}` : ""} `, how.at && time(how.at),
    how.note && `: ${how.note}`);
}

const progress = (told) =>
  told && h("p", { class: "progress" },
    told.fraction !== null && told.fraction !== undefined &&
      h("progress", { max: 1, value: told.fraction, "aria-label": "How far the tool is" }),
    told.message);

function result(runId, call) {
  const shown = h("pre", { class: "result", dir: "auto" });
  const box = h("details", { open: call.result.length <= OPEN_CHARS },
    h("summary", {}, call.result === "" ? "Result: nothing" : `Result (${several(call.result.length, "character")})`), shown);
  const show = () => {
    if (!shown.textContent) fill(shown, shownResult(call.result));
  };
  if (box.open) show();
  box.addEventListener("toggle", () => box.open && show());
  const whole = async (pressed) => {
    try {
      fill(shown, shownResult((await get(runPath(runId, "result", String(call.step)))).result));
      box.open = true;
      pressed.remove();
    } catch (problem) {
      alarm(problem);
    }
  };
  return [box, call.full && button("Read the whole result", whole, { kind: "plain small" })];
}

export { fileList };
