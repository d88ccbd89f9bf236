// The list of Runs: filtered, paged, kept up to date.

import { runLink, sessionLink } from "/page/about.js";
import { get } from "/page/api.js";
import { badge, button, errorBox, fill, h, setWhy, time } from "/page/dom.js";
import { field } from "/page/dialogs.js";
import { agentNames } from "/page/start.js";
import { between, count, duration, money } from "/page/words.js";

const EVERY_MS = 2500;
const PAGE = 25;
const STATUSES = ["pending", "running", "completed", "failed", "cancelled", "timeout"];
const COLUMNS = ["Status", "Run", "Agent", "Session", "Created", "Duration", "Tokens", "Cost"];

/** Show the list in `main`; returns what stops it. */
export function showList(main, query) {
  const rows = new Map();
  const cursors = [""]; // of the pages up to this one
  let next = null;
  let timer;
  let asked = 0;
  const stop = new AbortController();

  const form = filters(query);
  const body = h("tbody", { role: "rowgroup" });
  const table = h("table", { role: "table", "aria-labelledby": "title" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, COLUMNS.map((name) =>
      h("th", { scope: "col", role: "columnheader", class: name.toLowerCase() }, name)))),
    body);
  const told = h("div", { "aria-live": "polite" });
  const turn = (how) => () => (how(), load(true));
  const newest = button("Newest", turn(() => cursors.splice(1)));
  const newer = button("Newer", turn(() => cursors.pop()));
  const older = button("Older", turn(() => cursors.push(next)));
  const pager = h("nav", { class: "buttons", "aria-label": "Pages of the list" }, newest, newer, older);
  fill(main, h("h1", { id: "title", tabindex: "-1" }, query.get("waiting") ? "Runs that wait for a person" : "Runs"),
    form, told, table, pager);

  async function load(anew = false) {
    clearTimeout(timer);
    const mine = (asked += 1);
    try {
      const filter = Object.fromEntries(query);
      const page = await get("/v1/runs", { ...filter, limit: PAGE, cursor: cursors.at(-1) }, stop.signal);
      if (mine !== asked) return;
      show(page);
      if (anew) document.getElementById("title").scrollIntoView();
    } catch (problem) {
      if (stop.signal.aborted || mine !== asked) return;
      fill(told, errorBox({ code: problem.code, message: problem.message, hint: problem.hint }));
    }
    if (!document.hidden) timer = setTimeout(load, EVERY_MS);
  }

  function show(page) {
    next = page.next_cursor;
    const first = cursors.length === 1 ? "This is the first page." : "";
    pager.hidden = Boolean(first) && !next;
    setWhy(newest, first);
    setWhy(newer, first);
    setWhy(older, next ? "" : "This is the last page.");
    const empty = [...query.keys()].length ? "No Run is like that." : "There are no Runs yet.";
    if (page.runs.length) fill(told);
    else if (told.textContent !== empty) fill(told, h("p", { class: "empty" }, empty));
    table.hidden = !page.runs.length;
    const seen = new Set(page.runs.map((run) => run.run_id));
    for (const [id, row] of rows) {
      if (seen.has(id)) continue;
      row.element.remove();
      rows.delete(id);
    }
    page.runs.forEach((run, at) => {
      const shape = JSON.stringify(run);
      let row = rows.get(run.run_id);
      if (!row) {
        row = { element: h("tr", { role: "row" }) };
        rows.set(run.run_id, row);
      }
      if (body.children[at] !== row.element) body.insertBefore(row.element, body.children[at] ?? null);
      if (row.shape !== shape) fillRow(row.element, run);
      else if (!run.completed_at) row.element.querySelector(".duration").textContent = duration(between(run.created_at));
      row.shape = shape;
    });
  }

  const seenAgain = () => !document.hidden && load();
  document.addEventListener("visibilitychange", seenAgain, { signal: stop.signal });
  load();
  agentNames().then((names) => {
    form.querySelector("datalist").append(...names.map((name) => h("option", { value: name })));
  }).catch(() => {}); // without a worker, names are typed
  return () => (stop.abort(), clearTimeout(timer));
}

function fillRow(row, run) {
  const ended = Boolean(run.completed_at);
  const later = h("span", { class: "quiet", title: "Known when it ends; the Run itself shows it now." }, "…");
  const waits = run.waiting_on ? `waits: ${run.waiting_on}` : run.queue_position && `${run.queue_position}. in the queue`;
  const link = runLink(run.run_id);
  // A link that has the focus keeps it.
  const focused = row.contains(document.activeElement);
  const cells = {
    Status: [badge(run.status), waits && h("span", { class: "waits" }, waits)],
    Run: [link, run.parent_run_id && h("small", { class: "quiet" }, " called by ", run.parent_run_id)],
    Agent: run.agent, Session: sessionLink(run.session_id), Created: time(run.created_at),
    Duration: duration(between(run.created_at, run.completed_at)),
    Tokens: ended ? count(run.total_tokens) : later,
    Cost: ended ? money(run.total_cost) : later.cloneNode(true),
  };
  fill(row, COLUMNS.map((name) =>
    h("td", { role: "cell", class: name.toLowerCase(), "data-label": name }, cells[name] ?? "")));
  if (focused) link.focus();
}

function filters(query) {
  const value = (name) => query.get(name) ?? "";
  const form = h("form", { class: "filters", role: "search", "aria-label": "Which Runs" },
    field("status", "Status", { kind: "select", value: value("status"), choices: [["", "any"], ...STATUSES.map((each) => [each, each])] }),
    field("agent", "Agent", { value: value("agent"), list: "agents", placeholder: "any" }),
    h("datalist", { id: "agents" }),
    field("session_id", "Session", { value: value("session_id"), placeholder: "any" }),
    field("waiting", "Waits for a person", { kind: "checkbox", value: value("waiting") }),
    h("p", { class: "field" }, h("button", { type: "submit" }, "Show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = new FormData(form);
    if (asked.has("waiting")) asked.set("waiting", "1");
    const given = [...asked].filter(([, each]) => each);
    location.hash = `#/?${new URLSearchParams(given)}`;
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, [type=checkbox]")) form.requestSubmit();
  });
  return form;
}
