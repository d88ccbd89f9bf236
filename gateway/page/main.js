// Which view is shown: the list, or one Run, by what stands behind the # in the address.

import { get } from "/page/api.js";
import { alarm, button, errorBox, fill, h, setWhy } from "/page/dom.js";
import { showList } from "/page/list.js";
import { showRun } from "/page/run.js";
import { startDialog } from "/page/start.js";

const main = document.getElementById("main");
let leave = () => {};
let config = null;

/** Why a key may not do something; nothing where it may. */
const whyNot = (scope) =>
  config.scopes.includes(scope) ? "" : `Your API key may not do this: it needs the scope “${scope}”.`;

function show(event) {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const run = /^\/runs\/([^/]+)$/.exec(path);
  if (!run && path && path !== "/") return; // a place in the page
  leave();
  window.scrollTo(0, 0);
  if (run) {
    const id = decodeURIComponent(run[1]);
    document.title = `${id} – Perdure`;
    leave = showRun(main, id, config, whyNot);
  } else {
    document.title = "Runs – Perdure";
    leave = showList(main, new URLSearchParams(query));
  }
  if (event) main.focus({ preventScroll: true });
}

async function begin() {
  try {
    config = await get("/v1/config");
  } catch (problem) {
    fill(main, h("h1", {}, "Perdure"), errorBox({ code: problem.code, message: problem.message, hint: problem.hint }),
      button("Try again", begin, { kind: "primary" }));
    return;
  }
  const who = [config.tenant && `tenant ${config.tenant}`, config.caller !== "anonymous" && config.caller, `v${config.version}`];
  fill(document.getElementById("who"), who.filter(Boolean).join(" · "));
  const start = document.getElementById("start");
  setWhy(start, whyNot("write"));
  start.addEventListener("click", () => (start.dataset.why ? alarm({ code: "forbidden", message: start.dataset.why }) : startDialog()));
  window.addEventListener("hashchange", show);
  show();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
begin();
