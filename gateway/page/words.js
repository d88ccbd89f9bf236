// Text of models and tools, made fit to be read: nothing in it is hidden or has an effect.
// The same rules as on the command line (client/cli/words.py).

const EFFECTS = /\r(?=\n)|[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;
const UNPRINTABLE = /[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const SPELLED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const DEEPEST = 24; // levels that are indented
const SHORT_CHARS = 70; // of JSON that stays in one line

const spelled = (char) =>
  SPELLED[char] ??
  Array.from({ length: char.length }, (_, at) =>
    "\\u" + char.charCodeAt(at).toString(16).padStart(4, "0")).join("");

/** A text of several lines, with what would reorder or overwrite it spelled out. */
export const visible = (text) =>
  String(text).replace(EFFECTS, (char, at, whole) => {
    if (char === "\n" || char === "\t") return char;
    return char === "\r" && whole[at + 1] === "\n" ? "" : spelled(char);
  });

/** A text, whole, in one line in which nothing is hidden: in JSON, it is the same text. */
export const escaped = (text) =>
  String(text).replace(UNPRINTABLE, (char) => (char === " " ? char : spelled(char)));

/** JSON text over several lines, its numbers and strings as they were written; null when it is none. */
export function indented(text) {
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object") return null;
  } catch {
    return null;
  }
  let out = "";
  let level = 0;
  let before = "";
  const line = () => "\n" + "  ".repeat(Math.min(level, DEEPEST));
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "}" || token === "]";
    if (closes) level -= 1;
    const opened = before === "{" || before === "[";
    if (opened ? !closes : closes || before === ",") out += line();
    out += token === ":" ? ": " : escaped(token);
    if (token === "{" || token === "[") level += 1;
    before = token;
  }
  return out;
}

/** What a tool is called with: complete, with nothing hidden. */
export const shownArguments = (text) =>
  text.length <= SHORT_CHARS ? escaped(text) : indented(text) ?? escaped(text);

/** What a tool brought, or a model said: JSON over several lines, or the text as it is. */
export const shownResult = (text) => (text.length > SHORT_CHARS && indented(text)) || visible(text);

const NUMBER = new Intl.NumberFormat("en");

export const count = (value) => (typeof value === "number" ? NUMBER.format(value) : escaped(value ?? 0));

export const several = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;

/** USD. */
export function money(value) {
  const cost = Number(value ?? 0);
  if (cost === 0) return "$0";
  if (cost >= 1) return `$${cost.toFixed(2)}`;
  return `$${cost.toFixed(cost < 0.001 ? 6 : 4)}`;
}

export function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const [minutes, hours, days] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  const two = (n) => String(n).padStart(2, "0");
  if (hours < 1) return `${minutes} min ${two(Math.floor(s % 60))} s`;
  return days < 1 ? `${hours} h ${two(minutes % 60)} min` : `${days} d ${two(hours % 24)} h`;
}

/** Milliseconds between two times of the API; until now where there is no second one. */
export const between = (from, to) => (to ? Date.parse(to) : Date.now()) - Date.parse(from);

const TODAY = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const OTHER = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function moment(iso) {
  const at = new Date(iso);
  return (at.toDateString() === new Date().toDateString() ? TODAY : OTHER).format(at);
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 ** 2).toFixed(1)} MB`;
}
