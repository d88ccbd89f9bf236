// What stands around the Steps: whose the Run is, what it used, where it came from, what it waits for.

import { facts, fill, h, time } from "/page/dom.js";
import { between, bytes, count, duration, money, several } from "/page/words.js";

export const runLink = (id) => id && h("a", { href: `#/runs/${encodeURIComponent(id)}` }, id);

export const sessionLink = (id) =>
  id && h("a", { href: `#/?${new URLSearchParams({ session_id: id })}` }, id);

export function aboutRun(run, config) {
  const link = (template, name) => {
    const url = template?.replaceAll("{run_id}", encodeURIComponent(run.run_id)).replaceAll("{trace_id}", encodeURIComponent(run.trace_id)) ?? "";
    return /^https?:\/\//.test(url) && h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, name);
  };
  const elsewhere = [link(config.temporal_ui_url_template, "Temporal UI"), link(config.trace_url_template, "Trace")].filter(Boolean);
  return facts([
    ["Agent", run.first_agent ? `${run.first_agent} → ${run.agent}` : run.agent],
    ["Session", sessionLink(run.session_id)],
    ["Created", time(run.created_at)],
    ["See also", elsewhere.length > 0 && elsewhere.map((each, at) => [at > 0 && " · ", each])],
  ], { class: "facts inline" });
}

const LIMITS = {
  max_turns: (limit) => several(limit, "turn"),
  max_tool_calls: (limit) => several(limit, "tool call"),
  max_identical_calls: (limit) => `${several(limit, "same call")} in a row`,
  max_tokens: (limit) => several(limit, "token"),
  max_cost: money,
  max_output_bytes: (limit) => `${bytes(limit)} an answer`,
};

/** That somebody wanted the Run to stop, and what came of it. */
export function cancelReceipt({ cancel, is_terminal: ended }) {
  const unknown = cancel.outcome_unknown?.length;
  return h("p", { class: "quiet" }, ended ? "Cancel was asked for at " : "Is being cancelled since ", time(cancel.requested_at),
    ` by ${cancel.by}`, cancel.reason && `: ${cancel.reason}`, ".",
    unknown ? ` Of ${several(unknown, "tool call")} nobody knows what it did.` : "");
}

export const took = (run) => duration(between(run.started_at ?? run.created_at, run.completed_at));

export function totals(run) {
  const { usage } = run;
  const partly = usage.complete ? "" : " at least";
  const unpriced = usage.unpriced_calls ? `, and ${several(usage.unpriced_calls, "call")} without a known price` : "";
  return facts([
    ["Duration", took(run)],
    ["Steps", `${count(run.steps.length)} in ${several(run.turn, "turn")}`],
    ["Model calls", count(usage.model_calls)],
    ["Tool calls", count(usage.tool_calls)],
    ["Tokens in", count(usage.input_tokens) + partly],
    ["of them cached", count(usage.input_tokens_details.cached_tokens)],
    ["Tokens out", count(usage.output_tokens) + partly],
    ["of them reasoning", count(usage.output_tokens_details.reasoning_tokens)],
    ["Cost", money(usage.cost) + partly + unpriced],
    ["Limits", Object.entries(run.limits).filter(([, value]) => value !== null)
      .map(([name, value]) => h("span", { class: "limit" }, (LIMITS[name] ?? ((limit) => `${name} ${count(limit)}`))(value), " "))],
  ]);
}

export function origin(run) {
  const children = run.steps.filter((step) => step.child_run_id)
    .map((step) => h("li", {}, runLink(step.child_run_id), ` Step ${step.number}`));
  return facts([
    ["Called by", runLink(run.parent_run_id)],
    ["Forked from", run.forked_from && [runLink(run.forked_from), ` after ${several(run.copied_steps, "Step")}`]],
    ["Called Runs", children.length > 0 && h("ul", { class: "plainlist" }, children)],
    ["Model", run.model],
    ["Started", run.started_at && time(run.started_at)],
    ["Resumed", run.resumed_at && time(run.resumed_at)],
    ["Ended", run.completed_at && time(run.completed_at)],
    ...Object.entries(run.metadata).map(([name, value]) => [h("code", {}, name), value]),
  ]);
}

/** What the Run waits for, and since when. */
export class Waits {
  constructor() {
    this.element = h("div", {});
    this.since = h("span", {});
  }

  update(waiting) {
    const shape = JSON.stringify(waiting);
    if (shape !== this.shape) {
      this.shape = shape;
      const isRun = waiting?.type === "child";
      fill(this.element, waiting && h("p", { class: "waitbox" },
        h("strong", {}, `Waits for: ${waiting.type}`),
        waiting.since && [", since ", time(waiting.since), " (", this.since, ")"],
        waiting.expires_at && [waiting.type === "retry" ? ", next attempt at " : ", until ", time(waiting.expires_at)],
        waiting.queue_position && `, ${waiting.queue_position}. in the queue`,
        waiting.detail && [". ", isRun ? waiting.detail.split(", ").map((id) => [runLink(id), " "]) : waiting.detail]));
    }
    if (waiting?.since) this.since.textContent = duration(between(waiting.since));
  }
}
