// Following a Run: Server-Sent Events that go on where they were cut off.

import { problemOf, readJson } from "/page/api.js";

const SILENT_MS = 35_000; // the gateway says something every 15 s, be it only a comment
const LONGEST_MS = 10_000; // between two attempts
const REFUSED = [400, 401, 403, 404, 410, 422];

/**
 * Follow until the end.
 * `took(item)` gets each Event and delta, `stands(state, problem)` tells how the connection is:
 * connecting, live, lost, refused, ended. Returns a function that stops it.
 */
export function follow(path, position, took, stands) {
  const stop = new AbortController();
  run(path, { position: String(position) }, took, stands, stop.signal).catch((error) => {
    if (!stop.signal.aborted) throw error;
  });
  return () => stop.abort();
}

async function run(path, place, took, stands, stopped) {
  let waitMs = 250;
  stands("connecting");
  while (!stopped.aborted) {
    const before = place.position;
    try {
      const how = await once(path, place, took, stands, stopped);
      if (how === "ended" || how === "refused") return;
    } catch (error) {
      if (stopped.aborted) return;
      stands("lost", error.hint === undefined ? undefined : error);
      if (error.afterMs) waitMs = error.afterMs;
    }
    if (place.position !== before) waitMs = 250;
    await later(waitMs, stopped);
    waitMs = Math.min(waitMs * 2, LONGEST_MS);
  }
}

async function once(path, place, took, stands, stopped) {
  const silence = new AbortController();
  let watch;
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(() => silence.abort(), SILENT_MS);
  };
  const signal = AbortSignal.any([stopped, silence.signal]);
  try {
    heard();
    const response = await fetch(path, {
      cache: "no-store",
      headers: { Accept: "text/event-stream", "Last-Event-ID": place.position },
      signal,
    });
    if (response.status === 204) return stands("ended"), "ended";
    if (!response.ok) {
      const problem = await problemOf(response);
      if (REFUSED.includes(response.status)) return stands("refused", problem), "refused";
      problem.afterMs = 1000 * Number(response.headers.get("Retry-After") ?? 0);
      throw problem;
    }
    stands("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const frames = framer();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "cut";
      heard();
      for (const frame of frames(value)) {
        const item = readJson(frame.data);
        if (frame.id !== undefined) place.position = frame.id;
        took(item);
        if (item.run && item.stop_reason) return stands("ended"), "ended";
      }
    }
  } finally {
    clearTimeout(watch);
    silence.abort();
  }
}

/** Cut a stream into frames: https://html.spec.whatwg.org/multipage/server-sent-events.html */
function framer() {
  let rest = "";
  return function* (text) {
    const blocks = (rest + text).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const frame = { id: undefined, data: "" };
      for (const line of block.split("\n")) {
        const [, name, value] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
        if (name === "id") frame.id = value;
        if (name === "data") frame.data += (frame.data && "\n") + value;
      }
      if (frame.data) yield frame;
    }
  };
}

const later = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const now = () => (clearTimeout(timer), resolve());
    signal.addEventListener("abort", now, { once: true });
    window.addEventListener("online", now, { once: true });
  });
