// Asking before something is done: a dialog with a form, which stays open when it is refused.

import { errorBox, fill, h, say } from "/page/dom.js";

let numbers = 0;

/** A labelled field of a form. `kind` is a type of input, `textarea`, or `select` with `choices`. */
export function field(name, label, { kind = "text", value = "", help = "", choices = [], ...more } = {}) {
  const id = `field-${(numbers += 1)}`;
  const common = { id, name, "aria-describedby": help && `${id}-help`, ...more };
  let input;
  if (kind === "textarea") {
    input = h("textarea", { rows: 4, ...common });
    input.value = value;
  } else if (kind === "select") {
    input = h("select", common, choices.map(([each, shown]) =>
      h("option", { value: each, selected: each === value }, shown)));
  } else {
    input = h("input", { type: kind, ...common });
    if (kind === "checkbox") input.checked = Boolean(value);
    else input.value = value;
  }
  return h("p", { class: `field ${kind}` }, h("label", { for: id }, label), input,
    help && h("small", { id: `${id}-help`, class: "quiet" }, help));
}

/**
 * Ask. `done(values)` does what was asked for; what it throws is shown, and the dialog stays open.
 */
export function ask({ title, text = "", fields = [], yes, danger = false, done }) {
  const told = h("div", { role: "alert" });
  const submit = h("button", { type: "submit", class: danger ? "danger" : "primary" }, yes);
  const id = `dialog-${(numbers += 1)}`;
  const form = h("form", { method: "dialog" },
    h("h2", { id }, title),
    text && h("p", {}, text),
    fields, told,
    h("p", { class: "buttons" },
      submit,
      h("button", { type: "button", onclick: () => dialog.close() }, "Back")));
  const dialog = h("dialog", { "aria-labelledby": id }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    fill(told);
    try {
      await done(Object.fromEntries(new FormData(form)));
      dialog.close();
      say(`${yes}: done.`);
    } catch (problem) {
      fill(told, errorBox({ code: problem.code ?? "internal", message: problem.message, hint: problem.hint }));
    } finally {
      submit.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (form.querySelector("input, textarea, select") ?? submit).focus();
}
