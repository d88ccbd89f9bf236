// Starting a Run.

import { get, newId, send } from "/page/api.js";
import { ask, field } from "/page/dialogs.js";
import { alarm } from "/page/dom.js";

const BUSY = [
  ["reject", "Refuse"], ["enqueue", "Wait for its turn"],
  ["interrupt", "Cancel that Run, keep what it said"], ["rollback", "Cancel that Run, forget what it said"],
];

export async function agentNames() {
  return (await get("/v1/agents")).agents.map((agent) => agent.name);
}

export async function startDialog(session = "") {
  let names = [];
  try {
    names = await agentNames();
  } catch (problem) {
    alarm(problem);
  }
  const key = { body: "", id: "" };
  ask({
    title: "Start a Run",
    fields: [
      names.length
        ? field("agent", "Agent", { kind: "select", choices: names.map((name) => [name, name]) })
        : field("agent", "Agent", { required: true, help: "The name of an agent that the workers have." }),
      field("input", "What is to be done", { kind: "textarea", required: true }),
      field("session_id", "Session (optional)", { value: session, help: "The conversation it belongs to; a new one begins with it." }),
      field("on_busy", "If another Run of the Session is going on", { kind: "select", choices: BUSY }),
    ],
    yes: "Start",
    done: async ({ agent, input, session_id, on_busy }) => {
      const body = JSON.stringify({ agent, input, ...(session_id ? { session_id, on_busy } : {}) });
      // Sent again after an answer was lost, the same request is the same Run.
      if (body !== key.body) Object.assign(key, { body, id: newId() });
      const run = await send("POST", "/v1/runs", body, { "Idempotency-Key": key.id });
      location.hash = `#/runs/${encodeURIComponent(run.run_id)}`;
    },
  });
}
