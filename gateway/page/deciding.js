// What a Run asks a person: shown whole, decided once.

import { runPath, send } from "/page/api.js";
import { field } from "/page/dialogs.js";
import { button, errorBox, facts, fill, h, say, time } from "/page/dom.js";
import { escaped, indented } from "/page/words.js";

const TITLES = {
  call: (action) => `Approve the call of ${action.name}?`,
  input: (action) => `Approve the input of ${action.name}?`,
  output: (action) => `Approve the output of ${action.name}?`,
  outcome: (action) => `What did ${action.name} do?`,
};

/** A form in which one action is decided. `subject` is the text it is about, where it is no call. */
export function actionCard(run, action, subject, why) {
  const told = h("div", { role: "alert" });
  const isCall = action.about === "call";
  const title = isCall && action.kind === "input" ? `${run.agent} asks` : TITLES[action.about](action);
  const buttons = [];
  const decide = async (label, body) => {
    buttons.forEach((each) => (each.disabled = true));
    fill(told);
    try {
      await send("POST", runPath(run.run_id, "actions"), body);
      say(`${title} ${label}.`);
      fill(told, h("p", {}, `${label}.`));
    } catch (problem) {
      fill(told, errorBox({ code: problem.code ?? "internal", message: problem.message, hint: problem.hint }));
      buttons.forEach((each) => (each.disabled = false));
    }
  };
  const form = action.kind === "input"
    ? answerForm(action, decide, buttons, why)
    : yesOrNo(action, decide, buttons, why);
  const id = `ask-${action.action_id}`;
  return h("section", { class: "card asks", "aria-labelledby": id },
    h("h3", { id }, title),
    action.reason && h("p", { class: "reason", dir: "auto" }, action.reason),
    facts([
      ["Asked", time(action.asked_at)],
      ["Expires", action.expires_at && [time(action.expires_at), "; then it is a no"]],
    ]),
    action.arguments && action.kind !== "input" && [
      h("h4", {}, "Arguments, complete"),
      h("pre", { class: "exact", dir: "ltr" }, indented(action.arguments) ?? escaped(action.arguments)),
    ],
    subject && h("pre", { class: "exact", dir: "auto" }, subject),
    form, told);
}

function yesOrNo(action, decide, buttons, why) {
  const note = field("note", "Note (optional)", { help: "Kept with the decision; the model reads it.", maxlength: 4096 });
  const said = () => note.querySelector("input").value;
  const start = indented(action.arguments) ?? action.arguments;
  const edit = field("arguments", "Arguments to use instead", { kind: "textarea", value: start, rows: 8, spellcheck: "false" });
  const area = edit.querySelector("textarea");
  const canEdit = action.about === "call" && Boolean(action.arguments);
  const editing = h("details", { class: "edit" }, h("summary", {}, "Change the arguments"), edit);
  buttons.push(
    button("Approve", () => {
      const changed = canEdit && editing.open && area.value !== start;
      return decide("Approved", changed ? withArguments(action, said(), area.value)
        : { action_id: action.action_id, decision: "approve", note: said() });
    }, { kind: "primary", why }),
    button("Reject", () =>
      decide("Rejected", { action_id: action.action_id, decision: "reject", note: said() }), { kind: "danger", why }));
  return h("div", {}, canEdit && editing, note, h("p", { class: "buttons" }, buttons));
}

/** The text of the body: the arguments stand in it as they were written, no number is rounded. */
function withArguments(action, note, text) {
  if (indented(text) === null || !text.trim().startsWith("{")) {
    // The gateway says what is wrong with it; it gets no other JSON than this.
    return JSON.stringify({ action_id: action.action_id, decision: "approve", note, arguments: text });
  }
  const rest = JSON.stringify({ action_id: action.action_id, decision: "approve", note });
  return `${rest.slice(0, -1)},"arguments":${text}}`;
}

function answerForm(action, decide, buttons, why) {
  const answer = (text) => decide("Answered", { action_id: action.action_id, decision: "answer", answer: text });
  const decline = button("Decline", () =>
    decide("Declined", { action_id: action.action_id, decision: "reject" }), { why });
  if (action.choices.length) {
    buttons.push(...action.choices.map((choice) => button(choice, () => answer(choice), { why })), decline);
    return h("p", { class: "buttons", role: "group", "aria-label": "Answers" }, buttons);
  }
  const words = field("answer", "Answer", { kind: "textarea", rows: 3 });
  buttons.push(
    button("Answer", () => answer(words.querySelector("textarea").value), { kind: "primary", why }), decline);
  return h("div", {}, words, h("p", { class: "buttons" }, buttons));
}
