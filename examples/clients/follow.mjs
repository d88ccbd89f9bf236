// Start a Run over HTTP and print what its agent says, whatever happens to the connection.
// For Node 20 or newer; `start` and `events` work in browsers as they are.
// PERDURE_URL=http://127.0.0.1:8080 PERDURE_API_KEY=… node follow.mjs assistant "What is 6 * 7?"

const EXIT_CODES = { completed: 0, failed: 1, cancelled: 3, timeout: 4 };
const NOT_NOW = [429, 502, 503, 504];

/** Wait before the next attempt: longer and longer, and not as long as everybody else. */
const pause = (failures) => new Promise((resolve) =>
  setTimeout(resolve, 100 + Math.random() * Math.min(500 * 2 ** failures, 10_000)));

/** Return the response; none when the server is not there, or can't answer now. */
async function response(url, options) {
  const found = await fetch(url, options).catch(() => null);
  if (!found || found.ok || NOT_NOW.includes(found.status)) return found?.ok ? found : null;
  throw new Error(`${found.status}: ${await found.text()}`);
}

/** Return the answer to a request, however often it has to be sent. */
async function ask(url, options) {
  for (let failures = 1; ; await pause(failures++)) {
    const answer = await (await response(url, options))?.json().catch(() => null);
    if (answer) return answer;
  }
}

/** Start a Run; return its id. With its key, a request that is sent again starts no second one. */
export async function start(url, headers, body) {
  const sent = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
  const options = { method: "POST", headers: { ...headers, ...sent }, body: JSON.stringify(body) };
  return (await ask(`${url}/v1/runs`, options)).run_id;
}

/** Yield what happens, each thing once; the last one has the Run as it ended, in `run`. */
export async function* events(url, headers, runId) {
  for (let failures = 1, since = {}; ; await pause(failures++)) {
    const path = `${url}/v1/runs/${runId}`, silence = new AbortController();
    const sent = { ...headers, ...since, Accept: "text/event-stream" };
    const stream = await response(`${path}/events`, { headers: sent, signal: silence.signal });
    if (stream) failures = 0; else continue;
    if (stream.status === 204) // nothing follows what we have
      return yield { type: "", run: await ask(path, { headers }) };
    for await (const { id, data } of frames(stream.body, silence)) {
      const event = JSON.parse(data);
      since = { "Last-Event-ID": id };
      yield event;
      if (event.run?.is_terminal) return;
    }
  }
}

/** Yield the frames of a body until it is cut, or silent for too long; a part of one is nothing. */
async function* frames(body, silence) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let text = ""; ; ) {
      const timer = setTimeout(() => silence.abort(), 45_000); // at most 15 s are
      const read = await reader.read().catch(() => ({ done: true }));
      clearTimeout(timer);
      if (read.done) return;
      const whole = (text + read.value).split("\n\n");
      text = whole.pop();
      for (const lines of whole) {
        const frame = Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/s)));
        if (frame.data) yield frame;
      }
    }
  } finally { silence.abort(); }
}

/** Print what is new. What a Step says is a draft until the Event comes that ends the Step. */
function show(event, drafts, out) {
  const { type, step, reply } = event, draft = drafts.get(step);
  if (type === "run.step.started" && event.kind === "model" && event.purpose !== "compact") {
    drafts.set(step, "");
  } else if (type === "run.output_text.delta") {
    drafts.set(step, (draft ?? "") + event.delta);
    out.write(event.delta);
  } else if (type === "run.step.retrying" && draft) {
    drafts.set(step, "");
    out.write("\n[void]\n");
  } else if (type === "run.reset") { // what follows comes after the event's `run`
    drafts.clear();
    out.write("\n[void]\n");
  } else if (/^run\.step\.(completed|failed)$/.test(type) && draft !== undefined) {
    const whole = reply?.text ?? reply?.refusal ?? "", fits = whole.startsWith(draft);
    out.write(fits ? `${whole.slice(draft.length)}\n` : `\n[void]\n${whole}\n`);
    drafts.delete(step);
  }
}

if (globalThis.process?.argv[1]?.endsWith("follow.mjs")) {
  const { PERDURE_URL: url = "http://127.0.0.1:8080", PERDURE_API_KEY: key = "" } = process.env;
  const headers = key ? { Authorization: `Bearer ${key}` } : {}, [, , agent, input] = process.argv;
  let last, drafts = new Map(), runId = await start(url, headers, { agent, input });
  console.error(`Run ${runId}`);
  for await (last of events(url, headers, runId)) show(last, drafts, process.stdout);
  console.error(last.run.error ?? last.run.status);
  process.exitCode = EXIT_CODES[last.run.status] ?? 1;
}
