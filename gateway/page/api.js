// Calls of the gateway, and what it refuses.

/** Why a call did not succeed: a sentence, a stable code and the way out. */
export class Problem extends Error {
  constructor(status, told) {
    super(told.detail ?? told.title ?? `The gateway answered ${status}.`);
    this.status = status;
    this.code = told.code ?? `http_${status}`;
    this.hint = told.hint ?? "";
    this.more = told;
  }
}

const unreachable = () =>
  new Problem(0, {
    code: "unreachable",
    detail: "The gateway does not answer.",
    hint: "Check that it runs (`perdure serve`), and the network. Nothing that was started is lost.",
  });

// Numbers that JavaScript would round stay as they were written.
const exact = (_, value, context) =>
  typeof value === "number" && context?.source !== undefined &&
  Number.isInteger(value) && !Number.isSafeInteger(value) ? context.source : value;

export const readJson = (text) => JSON.parse(text, exact);

export const runPath = (runId, ...rest) =>
  ["/v1/runs", ...[runId, ...rest].map(encodeURIComponent)].join("/");

export async function problemOf(response) {
  try {
    return new Problem(response.status, readJson(await response.text()));
  } catch {
    return new Problem(response.status, { hint: "Something between this page and the gateway may have answered." });
  }
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) throw await problemOf(response);
  return readJson(await response.text());
}

export function get(path, query = {}, signal = undefined) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return call(asked.size ? `${path}?${asked}` : path, { signal });
}

/** Send a body: a value, or the text of a JSON object where it has to stay as it was written. */
export const send = (method, path, body = {}, headers = {}) =>
  call(path, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

/** An id that nobody else has chosen. */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
