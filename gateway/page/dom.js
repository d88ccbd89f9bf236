// Elements, made of text only: nothing that comes from a Run is ever read as HTML.

import { moment, visible } from "/page/words.js";

/** An element. Texts among the children are shown with nothing hidden in them. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : visible(value));
  }
  element.append(...nodes(children));
  return element;
}

export const fill = (element, ...children) => {
  element.replaceChildren(...nodes(children));
  return element;
};

const nodes = (children) =>
  children.flat(9).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : visible(child)));

/** A time, with the exact one for whoever looks closer. */
export const time = (iso) => h("time", { datetime: iso, title: iso }, moment(iso));

/** Rows of a name and a value; those without a value are left out. */
export const facts = (rows, properties = {}) =>
  h("dl", { class: "facts", ...properties }, rows
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

const SIGNS = {
  pending: "◷", running: "▶", completed: "✓", failed: "✕", cancelled: "■", timeout: "⌛",
  requested: "◷", rejected: "✕",
};

export const badge = (status) =>
  h("span", { class: `badge ${/^[a-z]+$/.test(status) ? status : ""}` },
    h("span", { "aria-hidden": "true" }, SIGNS[status] ?? "•"), " ", status);

/** What went wrong, and the way out. */
export const errorBox = (error) =>
  h("div", { class: "error" },
    h("p", {}, h("code", {}, error.code), " ", error.message),
    error.hint && h("p", { class: "quiet" }, error.hint));

/** A button that says why it can't be used, where it can't. */
export function button(label, act, { why = "", kind = "", name = "" } = {}) {
  const made = h("button", { type: "button", class: kind || false, "aria-label": name || false }, label);
  setWhy(made, why);
  made.addEventListener("click", () => (made.dataset.why ? tell(made.dataset.why) : act(made)));
  return made;
}

export function setWhy(made, why) {
  if ((made.dataset.why ?? "") === why) return;
  made.dataset.why = why;
  if (why) made.setAttribute("aria-disabled", "true");
  else made.removeAttribute("aria-disabled");
  made.title = why;
}

/** Tell in a corner of the page, and to those who listen. */
export function tell(text) {
  say(text);
  note(h("p", {}, text), 5000);
}

/** Tell what went wrong, until it is put away. */
export function alarm(problem) {
  console.warn(problem);
  note(errorBox({ code: problem.code ?? "internal", message: problem.message, hint: problem.hint }), 20000);
}

let pending = "";
/** Tell those who listen: the latest only, at most every second. */
export function say(text) {
  if (!pending) setTimeout(() => {
    document.getElementById("told").textContent = visible(pending);
    pending = "";
  }, 1000);
  pending = text;
}

function note(content, forMs) {
  const box = h("div", { class: "note" }, content);
  box.append(button("×", () => box.remove(), { kind: "plain", name: "Put away" }));
  document.getElementById("alerts").append(box);
  setTimeout(() => box.remove(), forMs);
}
