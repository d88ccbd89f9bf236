// What people may do to a Run: each a dialog that says what will happen.

import { newId, runPath, send } from "/page/api.js";
import { ask, field } from "/page/dialogs.js";
import { several } from "/page/words.js";

const LIMITS = [
  ["max_turns", "Turns", 1], ["max_tool_calls", "Tool calls", 1],
  ["max_tokens", "Tokens", 1], ["max_cost", "Cost, in US dollars", "any"],
];

const limitFields = (run) =>
  LIMITS.map(([name, label, step]) =>
    field(name, label, { kind: "number", min: 0, step, value: run.limits[name] ?? "", placeholder: "no limit" }));

/** The limits that differ from those that the Run has. */
function chosenLimits(run, values) {
  const changed = LIMITS.map(([name]) => [name, values[name]])
    .filter(([name, value]) => value !== "" && Number(value) !== run.limits[name]);
  return Object.fromEntries(changed.map(([name, value]) => [name, Number(value)]));
}

export const cancelDialog = (run) =>
  ask({
    title: "Cancel this Run?",
    text: "What it has done is kept. It can be resumed later.",
    fields: [
      field("mode", "When", {
        kind: "select",
        choices: [["now", "Now: what is in flight is stopped"], ["after_step", "After the Steps that run now"]],
      }),
      field("reason", "Reason (optional)", { maxlength: 1000 }),
    ],
    yes: "Cancel the Run",
    danger: true,
    done: ({ mode, reason }) => send("POST", runPath(run.run_id, "cancel"), { mode, reason }),
  });

export function messageDialog(run) {
  const message_id = `msg_${newId()}`;
  ask({
    title: "Say something to this Run",
    text: "It joins before the next model call.",
    fields: [field("text", "Message", { kind: "textarea", required: true })],
    yes: "Send",
    done: ({ text }) => send("POST", runPath(run.run_id, "messages"), { text, message_id }),
  });
}

export const pauseDialog = (run) =>
  ask({
    title: "Pause this Run?",
    text: "What is in flight goes to its end; nothing new starts before somebody lets it go on.",
    fields: [field("reason", "Reason (optional)", { maxlength: 1000 })],
    yes: "Pause",
    done: ({ reason }) => send("POST", runPath(run.run_id, "pause"), { reason }),
  });

export const limitsDialog = (run) =>
  ask({
    title: "Raise the limits",
    text: "A Run that is paused at a limit goes on.",
    fields: limitFields(run),
    yes: "Raise",
    done: (values) => send("PATCH", runPath(run.run_id), { limits: chosenLimits(run, values) }),
  });

export const resumeDialog = (run, done) =>
  ask({
    title: "Resume this Run",
    text: "It goes on from its last good Step, under the same id. Limits may be raised for it:",
    fields: limitFields(run),
    yes: "Resume",
    done: async (values) => {
      const limits = chosenLimits(run, values);
      await send("POST", runPath(run.run_id, "resume"), Object.keys(limits).length ? { limits } : {});
      await done();
    },
  });

export const forkDialog = (run, step = run.steps.length) =>
  ask({
    title: "Fork this Run",
    text: `A new Run begins where this one stood after a Step, of ${several(run.steps.length, "Step")}. This one stays as it is.`,
    fields: [
      field("step", "After Step", { kind: "number", min: 0, max: run.steps.length, value: step, required: true }),
      field("message", "Message (optional)", { kind: "textarea", help: "What the user says then." }),
      field("agent", "Agent (optional)", { placeholder: run.agent }),
      field("model", "Model (optional)", { placeholder: run.model ?? "the agent's" }),
    ],
    yes: "Fork",
    done: async ({ step: chosen, message, agent, model }) => {
      const given = Object.entries({ message, agent, model }).filter(([, value]) => value);
      const forked = await send("POST", runPath(run.run_id, "fork"), { step: Number(chosen), ...Object.fromEntries(given) });
      location.hash = `#/runs/${encodeURIComponent(forked.run_id)}`;
    },
  });
