// What all screens share: the state in the address, requests, and how things are written.

/** The state of the pages: the screen and what it shows. It is all in the address, so a link has it. */
export const view = $state({ screen: "overview", query: {} });

/** Raw values: those of paths are steps that are each encoded by themselves. */
function parse(hash) {
  const [screen, raw = ""] = hash.replace(/^#\/?/, "").split("?");
  const query = {};
  for (const pair of raw.split("&").filter(Boolean)) {
    const at = pair.indexOf("=");
    query[at < 0 ? pair : pair.slice(0, at)] = at < 0 ? "" : pair.slice(at + 1);
  }
  return { screen: screen || "overview", query };
}

export function follow() {
  const { screen, query } = parse(location.hash);
  view.screen = screen;
  view.query = query;
}

export function pairs(query) {
  return Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
}

/** The link to a screen; what is kept of the state is the store. */
export function link(screen, query = {}) {
  const all = pairs({ store: view.query.store, ...query });
  return `#/${screen}${all ? "?" + all : ""}`;
}

/** Changes the state, with or without a step to go back to. */
export function go(screen, query, replace = false) {
  const target = link(screen, query);
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  follow();
}

export function change(query, replace = false) {
  go(view.screen, { ...view.query, ...query }, replace);
}

/** The link to what is shown now: of a screen that is looked at, with all of its state. */
export const here = () => link(view.screen, view.query);

export function url(path, query = {}) {
  const all = pairs(query);
  return path + (all ? "?" + all : "");
}

export async function ask(path, query, signal) {
  const address = url(path, query);
  const early = window.ahead?.get(address);
  window.ahead?.delete(address);
  const answer = await (early ?? fetch(address, { signal }));
  signal?.throwIfAborted();
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(said.error?.message ?? `${answer.status} ${answer.statusText}`);
    error.kind = said.error?.kind;
    throw error;
  }
  return said;
}

export const step = (hex) => hex.replace(/../g, "%$&");
/** The raw steps of a path. A slash in front is not one of theirs, so a step without bytes can be named. */
export const steps = (path) => (path ? path.replace(/^\//, "").split("/") : []);
export const joined = (steps) => steps.map((it) => "/" + it).join("");
/** The raw path of one that the program gives in hexadecimal. */
export const raw = (hex) => joined(steps(hex).map(step));
/** At most so many letters of a text, none of them halved. */
export function clip(text, most) {
  if (text == null || text.length <= most) return text ?? "";
  // A letter has two units at most.
  const letters = [...text.slice(0, 2 * most + 2)];
  return letters.length > most ? letters.slice(0, most).join("") + "…" : text;
}

/** A raw step as people read it. */
export function shown(raw) {
  if (!raw) return "(no bytes)";
  const bytes = [];
  for (let at = 0; at < raw.length; at++) {
    if (raw[at] === "%") {
      bytes.push(parseInt(raw.slice(at + 1, at + 3), 16));
      at += 2;
    } else bytes.push(...new TextEncoder().encode(raw[at]));
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(bytes));
    if (!/[\p{C}\\]/u.test(text)) return text;
  } catch {
    // Bytes that are no text are shown one by one.
  }
  return bytes.map((it) => (it > 31 && it < 127 && it !== 92 ? String.fromCharCode(it) : "\\x" + it.toString(16).padStart(2, "0"))).join("");
}

/** A raw value as people write it, or as it is where it is no text. */
export function plain(raw) {
  try {
    return decodeURIComponent(raw ?? "");
  } catch {
    return raw;
  }
}

const grouped = new Intl.NumberFormat("en");
export const count = (number) => (number == null ? "–" : grouped.format(number));

export function bytes(number) {
  if (number == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(number) >= 1024 && at < 4) {
    number /= 1024;
    at++;
  }
  return `${at ? number.toPrecision(3) : number} ${units[at]}`;
}

/** A time that is given in microseconds. */
export function time(us) {
  if (us == null) return "–";
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return us >= 1 ? `${us.toPrecision(3)} µs` : `${Math.round(us * 1e3)} ns`;
}

export const short = (hash) => (hash ? hash.slice(0, 14) + "…" : "–");

export function date(seconds) {
  const at = new Date(seconds * 1000);
  return isNaN(at) ? `${seconds} s` : at.toISOString().replace("T", " ").slice(0, 19);
}

/** The colours of series, as the style sheet has them now. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Array.from({ length: 8 }, (_, at) => style.getPropertyValue(`--c${at}`).trim());
}

/** Rows as a file, for what was put together here. */
export function save(name, text) {
  const at = URL.createObjectURL(new Blob([text]));
  const anchor = document.createElement("a");
  anchor.href = at;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(at), 1000);
}

/** Whether a block's name is its commit's hash, and none of the host's. */
export const isCommit = (name) => /^Co[1-9A-HJ-NP-Za-km-z]{50}$/.test(name);

/** Layers of a chart of time by action: those that are named, and all others as one. */
export function layers(points, names) {
  const rest = (it) => Object.entries(it.total_ms).reduce((sum, [name, value]) => sum + (names.includes(name) ? 0 : value), 0);
  const all = names.map((label) => ({ label, values: points.map((it) => it.total_ms[label] ?? 0) }));
  if (points.some((it) => rest(it) > 0)) all.push({ label: "others", values: points.map(rest) });
  return all;
}
