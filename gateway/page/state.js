// A Run as it stands, and what each Event and delta does to it.
//
// The gateway's own answer about the Run is the truth: the page begins with it, takes it again
// where an Event changes more than is worth following here, and at the end. Between those, Steps
// are kept up to date from the Events, so that a long Run is not read again at each of them.

const COUNTED = ["input_tokens", "output_tokens", "total_tokens", "model_calls", "cost", "unpriced_calls"];
const KEPT = ["alias", "finish_reason", "usage", "incomplete", "extra", "echo", "unfit", "checked"];

export class RunState {
  constructor(run) {
    this.load(run);
  }

  load(run) {
    const drafts = [...(this.drafts ?? [])];
    const runs = (number) => run.steps[number - 1]?.status === "running";
    this.run = run;
    this.drafts = new Map(drafts.filter(([number]) => runs(number))); // what Steps have said so far
    this.retries = this.retries ?? new Map(); // attempts that began while this page looked
    this.calls = new Map(); // of each model Step: the calls that it asked for
    this.ofStep = new Map(); // of each tool Step: its call
    for (const call of run.tool_calls) this.index(call);
  }

  index(call) {
    if (!this.calls.has(call.model_step)) this.calls.set(call.model_step, []);
    this.calls.get(call.model_step).push(call);
    if (call.step) this.ofStep.set(call.step, call);
  }

  /** The Step in which a Step is shown: tool Steps are shown with the model Step that asked. */
  owner(number) {
    return this.ofStep.get(number)?.model_step ?? number;
  }

  get openActions() {
    const { run } = this;
    if (run.is_terminal) return [];
    const last = run.tool_calls.at(-1)?.model_step;
    const step = run.steps.findLast((each) => each.kind === "model");
    return [step, ...(this.calls.get(last) ?? [])]
      .map((each) => each?.action)
      .filter((action) => action && !action.resolution);
  }

  /** What the Run waits for, also where no Event says so. */
  get waiting() {
    const { run, drafts } = this;
    if (run.is_terminal) return null;
    const told = run.waiting_on;
    if (told && !["retry", "child", "worker"].includes(told.type)) return told;
    const running = run.steps.filter((step) => step.status === "running");
    for (const { number } of running) {
      const { at, reason, attempt } = drafts.get(number)?.retrying ?? {};
      if (at && Date.parse(at) > Date.now() && running.length === 1) {
        return { type: "retry", since: null, expires_at: at, detail: `attempt ${attempt} of Step ${number}, after: ${reason}` };
      }
    }
    if (told?.type === "retry" && running.length && Date.parse(told.expires_at) > Date.now()) return told;
    if (told?.type === "worker" && running.length && !running.some(({ number }) => drafts.has(number))) return told;
    const children = running.filter((step) => step.child_run_id);
    if (!children.length || children.length < running.length) return null;
    return { type: "child", since: children[0].started_at, detail: children.map((step) => step.child_run_id).join(", ") };
  }

  /** Take an Event or a delta. Returns the Steps that changed, or null: the Run is to be read again. */
  take(item) {
    if (item.type === "run.reset") return this.drafts.clear(), this.load(item.run), null;
    if (item.sequence_number === undefined) return this.takeDelta(item);
    if (item.sequence_number <= this.run.last_event) return [];
    if (item.run) return this.load(item.run), null;
    if (item.sequence_number !== this.run.last_event + 1) return null;
    const changed = EVENTS[item.type]?.(this, item) ?? null;
    if (changed) {
      this.run.last_event = item.sequence_number;
      this.run.last_progress_at = item.at;
    }
    return changed;
  }

  takeDelta(item) {
    if (this.run.steps[item.step - 1]?.status !== "running") return [];
    const draft = this.drafts.get(item.step) ?? { attempt: 1, segments: [], length: 0, said: 0 };
    if (item.attempt < draft.attempt) return [];
    if (item.attempt > draft.attempt || item.type === "run.step.retrying" || item.offset === 0) {
      Object.assign(draft, { attempt: item.attempt, segments: [], length: 0, said: draft.said + 1, progress: null });
    }
    this.drafts.set(item.step, draft);
    if (item.type === "run.step.retrying") {
      draft.retrying = item;
      const seen = this.retries.get(item.step) ?? [];
      if (!seen.some((each) => each.attempt === item.attempt)) {
        this.retries.set(item.step, [...seen, { attempt: item.attempt, at: item.at ?? new Date().toISOString() }]);
      }
    } else if (item.type === "run.tool.progress") {
      draft.progress = item;
    } else if (item.delta !== undefined) {
      speak(draft, item);
    }
    return [this.owner(item.step)];
  }
}

/** Add to a draft. Offsets are in characters, of which one may be two of JavaScript's. */
function speak(draft, item) {
  const known = draft.length - item.offset;
  const fresh = known > 0 ? Array.from(item.delta).slice(known) : Array.from(item.delta);
  if (!fresh.length) return;
  draft.length = item.offset + Math.max(known, 0) + fresh.length;
  const kind = item.type.split(".").slice(1, -1).join(".");
  const last = draft.segments.at(-1);
  if (last?.kind === kind && last.call === item.call) last.text += fresh.join("");
  else draft.segments.push({ kind, call: item.call, name: item.name, text: fresh.join("") });
}

function countUsage(total, more) {
  for (const name of COUNTED) if (typeof more[name] === "number") total[name] += more[name];
  const { input_tokens_details: read, output_tokens_details: written } = more;
  total.input_tokens_details.cached_tokens += read?.cached_tokens ?? 0;
  total.input_tokens_details.cache_write_tokens += read?.cache_write_tokens ?? 0;
  total.output_tokens_details.reasoning_tokens += written?.reasoning_tokens ?? 0;
  total.complete &&= more.complete ?? true;
}

function stepStarted({ run, ofStep, drafts }, event) {
  run.steps.push({
    number: event.step, kind: event.kind, turn: event.turn, purpose: event.purpose ?? "turn",
    name: event.name, call_id: event.call_id, child_run_id: event.child_run_id ?? null,
    status: "running", attempt: 1, started_at: event.at, completed_at: null, extra: {}, echo: {},
  });
  Object.assign(run, { turn: event.turn, current_step: event.step });
  drafts.delete(event.step);
  if (event.purpose === "conclude") return null; // the calls that it may not have are settled
  if (!event.call_id) return [event.step];
  const call = run.tool_calls.findLast((each) => each.call_id === event.call_id);
  if (!call) return null;
  Object.assign(call, { status: "running", step: event.step });
  ofStep.set(event.step, call);
  return [call.model_step];
}

function stepEnded(state, event, failed) {
  const { run } = state;
  const step = run.steps[event.step - 1];
  const reply = event.reply;
  if (!step || step.status !== "running") return null;
  if (reply?.checked || reply?.review || reply?.terms) return null; // the Run is more than before
  const why = failed ? event.error : reply.error;
  const stopped = why?.code === "cancelled" || reply?.stopped;
  Object.assign(step, {
    status: failed ? (stopped ? "cancelled" : "failed") : "completed",
    completed_at: event.at, error: why ?? null, attempt: reply?.attempt ?? why?.attempt ?? step.attempt,
  });
  if (step.kind === "tool") {
    const call = state.ofStep.get(step.number);
    if (!call) return null;
    const told = why ? JSON.stringify({ error: { code: why.code, message: why.message } }) : "";
    Object.assign(call, {
      status: step.status, error: why ?? null, result: reply?.text ?? told,
      full: reply?.full ?? null, files: reply?.files ?? [],
    });
    run.usage.tool_calls += 1;
    if (reply?.usage) {
      step.child_usage = reply.usage;
      countUsage(run.usage, reply.usage);
      run.usage.tool_calls += reply.usage.tool_calls ?? 0;
    }
  } else if (reply) {
    step.name = reply.model;
    step.text = reply.refusal ?? reply.text;
    for (const name of KEPT) if (reply[name] !== undefined) step[name] = reply[name];
    for (const call of reply.calls ?? []) {
      const asked = { ...call, model_step: step.number, step: null, action: null, error: call.rejection ?? null,
        status: call.rejection ? "rejected" : "requested", result: null };
      run.tool_calls.push(asked);
      state.index(asked);
    }
    countUsage(run.usage, reply.usage ?? {});
    if (step.purpose === "compact") return null;
  } else {
    run.usage.complete = false;
  }
  Object.assign(run, { total_tokens: run.usage.total_tokens, total_cost: run.usage.cost });
  if (["child", "retry", "worker"].includes(run.waiting_on?.type)) run.waiting_on = null;
  state.drafts.delete(step.number);
  return [state.owner(step.number)];
}

/** What is waited for, of the actions that are open. */
function waits(state) {
  const open = state.openActions;
  if (!open.length) return null;
  return {
    type: open.some((each) => each.kind === "approval") ? "approval" : "input",
    since: open.map((each) => each.asked_at).sort()[0],
    expires_at: open.map((each) => each.expires_at).filter(Boolean).sort()[0] ?? null,
    detail: open.map((each) => each.name).join(", "),
    action_ids: open.map((each) => each.action_id),
  };
}

function actionRequired(state, event) {
  const last = state.run.tool_calls.at(-1)?.model_step;
  const changed = [];
  for (const action of event.actions) {
    const call = action.call_id && state.calls.get(last)?.find((each) => each.call_id === action.call_id);
    const whose = call || state.run.steps.findLast((each) => each.kind === "model");
    if (!whose) return null;
    whose.action = action;
    changed.push(call ? call.model_step : whose.number);
  }
  state.run.waiting_on = waits(state);
  return changed;
}

const EVENTS = {
  "run.step.started": stepStarted,
  "run.step.completed": (state, event) => stepEnded(state, event, false),
  "run.step.failed": (state, event) => stepEnded(state, event, true),
  "run.action.required": actionRequired,
  "run.paused": ({ run }, event) => ((run.waiting_on = event.waiting_on), []),
  "run.unpaused": (state) => ((state.run.waiting_on = waits(state)), []),
  "run.pause_requested": ({ run }, event) => ((run.pause_reason = event.reason), []),
  "run.unpause_requested": ({ run }) => ((run.pause_reason = null), []),
};
