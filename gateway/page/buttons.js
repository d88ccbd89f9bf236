// The buttons above a Run, each with the reason why it can't be used now, where it can't.

import { runPath, send } from "/page/api.js";
import { cancelDialog, forkDialog, limitsDialog, messageDialog, pauseDialog, resumeDialog } from "/page/changes.js";
import { alarm, button, h, setWhy, tell } from "/page/dom.js";

export class Buttons {
  /** `why` a key may change nothing, if it may not; `resumed` is called when the Run goes on. */
  constructor(state, why, resumed) {
    this.state = state;
    this.why = why;
    this.message = button("Message", () => messageDialog(state.run));
    this.pause = button("Pause", () => (state.run.pause_reason === null ? pauseDialog(state.run) : unpause(state.run)));
    this.limits = button("Raise limits", () => limitsDialog(state.run));
    this.resume = button("Resume", () => resumeDialog(state.run, resumed));
    this.fork = button("Fork", () => forkDialog(state.run));
    this.cancel = button("Cancel", () => cancelDialog(state.run), { kind: "danger" });
    this.element = h("p", { class: "buttons", role: "group", "aria-label": "What you can do" },
      this.message, this.pause, this.limits, this.resume, this.fork, this.cancel);
  }

  update() {
    const { why, state: { run } } = this;
    const ended = run.is_terminal ? "The Run has ended." : "";
    const stopping = run.cancel && run.cancel.mode !== "after_step" ? "The Run is being cancelled." : "";
    const pauses = run.pause_reason === null ? "Pause" : "Let it go on";
    if (this.pause.textContent !== pauses) this.pause.textContent = pauses;
    for (const each of [this.message, this.pause, this.cancel]) setWhy(each, why || ended || stopping);
    setWhy(this.limits, why || (ended && "The Run has ended: resume it with other limits.") || stopping);
    setWhy(this.resume, why || (!ended && "The Run goes on.") || (run.status === "completed" ? "The Run is completed: fork it." : ""));
    setWhy(this.fork, why);
  }
}

async function unpause(run) {
  try {
    await send("POST", runPath(run.run_id, "unpause"));
    tell("It goes on.");
  } catch (problem) {
    alarm(problem);
  }
}
