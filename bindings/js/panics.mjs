// Makes a panic of a module, as Binaryen writes it as text, the bare trap it ends with: a panic would be a fault of varvite, and is
// `RuntimeError: unreachable` then. At each of a thousand places that is one byte instead of a call with its arguments. What the
// words of a panic were made of, its sentences and the places in the source, become zeros. `build --words` leaves all as it was.
// Usage: node panics.mjs MODULE.wat   the text is written anew
import { readFileSync, writeFileSync } from "node:fs";

const NEVER_RETURN = new RegExp(
  [
    "core::panicking::(?!panic_nounwind_nobacktrace)\\w+",
    "core::panicking::panic_const::\\w+",
    "core::(option|result)::\\w+_failed",
    "core::cell::panic_already_\\w+",
    "core::slice::index::slice_index_fail",
    "core::slice::copy_from_slice_impl::len_mismatch_fail",
    "core::slice::sort::shared::smallsort::panic_on_ord_violation",
    "core::str::slice_error_fail",
    "alloc::raw_vec::(handle_error|capacity_overflow)",
    "alloc::alloc::handle_alloc_error",
    "<alloc::vec::Vec<_, _>>::\\w+::assert_failed",
  ]
    .map((it) => `^${it}(::<.*>)?(\\.\\d+)?(::h[0-9a-f]{16})?(_\\d+)?$`)
    .join("|"),
);
/** Of those, the ones that begin with where their sentence is and how long, or, of the last, with its length in the upper bits. */
const HAS_SENTENCE = /::(expect_failed|unwrap_failed|panic|panic_fmt)(\.\d+)?(::h[0-9a-f]{16})?(_\d+)?$/;
const IS_FORMATTED = /::panic_fmt(\.\d+)?(::h[0-9a-f]{16})?(_\d+)?$/;

const [path] = process.argv.slice(2);
const lines = readFileSync(path, "utf8").split("\n");

/** The name of a function without what tells it from others of that name; undefined if the line has none. */
function plainName(line, pattern) {
  const [, name] = pattern.exec(line) ?? [];
  return name?.replace(/^"|"$/g, "").replace(/\[[0-9a-f]{16}\]/g, "");
}

const kept = [];
let made = 0;
for (let at = 0; at < lines.length; at++) {
  const name = plainName(lines[at], /^ \(func \$("[^"]*"|\S+)/);
  if (name === undefined || !NEVER_RETURN.test(name)) {
    kept.push(lines[at]);
    continue;
  }
  const end = lines.indexOf(" )", at);
  // Whatever came to be called so and does return is left alone.
  if (lines[end - 1] === "  (unreachable)" && !lines[at].includes("(result")) {
    kept.push(lines[at], "  (unreachable)");
    made++;
  } else {
    kept.push(...lines.slice(at, end));
  }
  kept.push(" )");
  at = end;
}
// Another compiler may call them otherwise; then there is nothing to gain here, and that is said instead of passed over.
if (made === 0) throw new Error(`${path} has none of the functions that panic: see what they are called now`);

const ESCAPED = { t: 9, n: 10, r: 13, '"': 34, "'": 39, "\\": 92 };
const utf8 = new TextEncoder();

function bytesOf(text) {
  const bytes = [];
  for (const [, hex, sign, plain] of text.matchAll(/\\([0-9a-f]{2})|\\(.)|([^\\]+)/gu)) {
    if (hex) bytes.push(parseInt(hex, 16));
    else if (sign) bytes.push(ESCAPED[sign]);
    else bytes.push(...utf8.encode(plain));
  }
  return Uint8Array.from(bytes);
}

/** The pieces of data, and where in memory they begin. */
const data = [];
kept.forEach((line, index) => {
  const [, head, start, text] = /^( \(data \S+ \(i32\.const (\d+)\) )"(.*)"\)$/.exec(line) ?? [];
  if (head) data.push({ index, head, start: Number(start), bytes: bytesOf(text) });
});

/** The bytes at a place in memory, if there are so many in one piece. */
function bytesAt(place, length) {
  const piece = data.find((it) => place >= it.start && place + length <= it.start + it.bytes.length);
  return piece?.bytes.subarray(place - piece.start, place - piece.start + length);
}

/** The text of a file's name at a place in memory, if there is one of that length. */
function fileName(place, length) {
  const name = length < 4 || length > 300 ? undefined : bytesAt(place, length);
  return name && /^[\w./@-]+\.rs$/.test(String.fromCharCode(...name)) ? name : undefined;
}

// A place in the source is four numbers: where the file's name is, its length, the line and the column.
const names = new Map();
let places = 0;
for (const { bytes } of data) {
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 16 <= bytes.length; at += 4) {
    const [place, length, line, column] = [0, 4, 8, 12].map((it) => view.getUint32(at + it, true));
    if (line === 0 || line > 100_000 || column === 0 || column > 1_000) continue;
    const name = fileName(place, length);
    if (!name) continue;
    names.set(place, name);
    bytes.fill(0, at, at + 16);
    places++;
  }
}
for (const name of names.values()) name.fill(0);
if (places === 0) throw new Error(`${path} has no places in its source: see how they are written now`);

// A sentence goes if nobody else names a place in it: no other number of the code, and none of the data.
const sentences = [];
const numbers = [];
for (let at = 0; at < kept.length; at++) {
  const name = plainName(kept[at], /^ *\(call \$("[^"]*"|\S+)$/);
  if (name !== undefined && NEVER_RETURN.test(name) && HAS_SENTENCE.test(name)) {
    const [place, length] = [1, 2].map((it) => Number(/^ *\(i32\.const (\d+)\)$/.exec(kept[at + it] ?? "")?.[1] ?? NaN));
    if (Number.isInteger(place) && Number.isInteger(length) && (!IS_FORMATTED.test(name) || length % 2 === 1)) {
      sentences.push({ place, length: IS_FORMATTED.test(name) ? length >>> 1 : length });
      at += 2;
      continue;
    }
  }
  if (kept[at].startsWith(" (data ")) continue;
  for (const [, number] of kept[at].matchAll(/(?:i32\.const |offset=)(\d+)/g)) numbers.push(Number(number));
}
for (const { bytes } of data) {
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 4 <= bytes.length; at += 4) numbers.push(view.getUint32(at, true));
}
const named = Float64Array.from(numbers).sort();
function isNamed(from, to) {
  let [low, high] = [0, named.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (named[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low < named.length && named[low] < to;
}
for (const { place, length } of sentences) {
  if (!isNamed(place, place + length)) bytesAt(place, length)?.fill(0);
}

for (const { index, head, bytes } of data) {
  kept[index] = `${head}"${Array.from(bytes, (it) => `\\${it.toString(16).padStart(2, "0")}`).join("")}")`;
}
writeFileSync(path, kept.join("\n"));
