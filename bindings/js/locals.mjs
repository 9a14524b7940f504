// Numbers the variables of the functions of a module so that gzip compresses it better: a sixth of the bytes of its code are such
// numbers, and more of them are then like what is before them. Nothing else changes.
// Usage: node locals.mjs MODULE.wasm   the module is written anew
import { readFileSync, writeFileSync } from "node:fs";
import { functionsOf, numberBytes } from "./module.mjs";

/** How often a function is gone through, as long as it gets better. */
const PASSES = 2;
/** So many numbers are tried for a variable in each. */
const TRIES = 6;
/** So many earlier places that begin alike are looked at, and so far back: as gzip does, which looks at more. */
const PLACES = 48;
const WINDOW_BYTES = 32_500;
const [MATCH_MIN, MATCH_MAX] = [3, 258];
/** So many bytes before a number say which it may be. */
const CONTEXTS = [6, 4, 3];

const LITERALS = 257;
/** Of each length of a match, its code, and the bits behind it; the codes of distances go the same way. RFC 1951, 3.2.5. */
const [lengthCode, lengthBits] = [new Uint8Array(MATCH_MAX + 1), new Uint8Array(MATCH_MAX + 1)];
for (let code = 0, length = MATCH_MIN; code < 28; code++) {
  const bits = code < 8 ? 0 : (code - 4) >> 2;
  for (const end = length + (1 << bits); length < end && length < MATCH_MAX; length++) {
    [lengthCode[length], lengthBits[length]] = [code, bits];
  }
}
lengthCode[MATCH_MAX] = 28;

function distanceCode(distance) {
  const value = distance - 1;
  if (value < 4) return value;
  const bits = 31 - Math.clz32(value);
  return 2 * bits + ((value >> (bits - 1)) & 1);
}

/** How many bits each symbol takes that came so often. */
class Symbols {
  constructor(count) {
    this.seen = new Float64Array(count).fill(1);
    this.tune();
  }

  tune() {
    const all = this.seen.reduce((sum, it) => sum + it);
    this.bits = this.seen.map((it) => Math.log2(all / it));
  }
}

/** Code as gzip would compress it: about how many bits a function takes behind those before it. */
class Compressed {
  constructor(capacity) {
    this.bytes = new Uint8Array(capacity);
    this.end = 0;
    /** The last place of each three bytes, and before each place the last one before. */
    this.last = new Int32Array(1 << 16).fill(-1);
    this.before = new Int32Array(capacity);
    [this.symbols, this.distances] = [new Symbols(LITERALS + 29), new Symbols(30)];
  }

  /** Writes a function behind all others, with its variables numbered so; says where it ends. */
  write({ parts }, numbers) {
    let at = this.end;
    for (const { bytes, local } of parts) {
      for (let it = 0; it < bytes.length; it++) this.bytes[at++] = bytes[it];
      if (local === undefined) continue;
      let number = numbers[local];
      for (; number > 0x7f; number >>= 7) this.bytes[at++] = (number & 0x7f) | 0x80;
      this.bytes[at++] = number;
    }
    return at;
  }

  /** The longest match of what is at a place, which ends at an end. */
  match(at, end) {
    const { bytes, before } = this;
    const most = Math.min(MATCH_MAX, end - at);
    let [length, from] = [MATCH_MIN - 1, -1];
    let place = most < MATCH_MIN ? -1 : this.last[this.hash(at)];
    for (let left = PLACES; place >= 0 && left > 0 && at - place <= WINDOW_BYTES; left--, place = before[place]) {
      if (length >= MATCH_MIN && bytes[place + length] !== bytes[at + length]) continue;
      let equal = 0;
      while (equal < most && bytes[place + equal] === bytes[at + equal]) equal++;
      if (equal > length) [length, from] = [equal, place];
      if (length === most) break;
    }
    return { length, distance: at - from, found: from >= 0 };
  }

  hash(at) {
    const { bytes } = this;
    return (((bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2]) * 0x9e3779b1) >>> 16;
  }

  /** The bits of what was written up to an end; kept, the next function is behind it. */
  cost(end, kept = false) {
    const { bytes, last, symbols, distances } = this;
    const undo = [];
    let sum = 0;
    for (let at = this.end; at < end; ) {
      let step = 1;
      const { length, distance, found } = this.match(at, end);
      if (found) {
        const code = distanceCode(distance);
        const matchBits =
          symbols.bits[LITERALS + lengthCode[length]] + lengthBits[length] + distances.bits[code] + Math.max(0, (code >> 1) - 1);
        let literalBits = 0;
        for (let it = at; it < at + length; it++) literalBits += symbols.bits[bytes[it]];
        if (matchBits < literalBits) {
          [step, sum] = [length, sum + matchBits];
          if (kept) [symbols.seen[LITERALS + lengthCode[length]]++, distances.seen[code]++];
        }
      }
      if (step === 1) {
        sum += symbols.bits[bytes[at]];
        if (kept) symbols.seen[bytes[at]]++;
      }
      for (const next = at + step; at < next; at++) {
        if (at + MATCH_MIN > end) continue;
        const hash = this.hash(at);
        undo.push(hash, last[hash]);
        [this.before[at], last[hash]] = [last[hash], at];
      }
    }
    if (kept) {
      this.end = end;
      symbols.tune();
      distances.tune();
    } else {
      for (let it = undo.length - 2; it >= 0; it -= 2) last[undo[it]] = undo[it + 1];
    }
    return sum;
  }
}

/** Which number came last behind the bytes before one. */
class Numbers {
  constructor(code) {
    this.code = code;
    this.last = CONTEXTS.map(() => new Map());
  }

  /** Calls back for each number of the function that was written last: the variable, and what is before it by length. */
  each({ parts }, numbers, call) {
    let at = this.code.end;
    for (const { bytes, local } of parts) {
      at += bytes.length;
      if (local === undefined) break;
      CONTEXTS.forEach((length, index) => {
        if (at - length < this.code.end) return;
        let context = 0;
        for (let it = at - length; it < at; it++) context = context * 256 + this.code.bytes[it];
        call(local, index, context);
      });
      at += numbers[local] > 0x7f ? 2 : 1;
    }
  }

  /** For each variable the numbers that it would have by what is before it, with their weight. */
  wanted(one, numbers) {
    const wanted = Array.from({ length: one.count }, () => new Map());
    this.each(one, numbers, (local, index, context) => {
      const number = this.last[index].get(context);
      if (number !== undefined) wanted[local].set(number, (wanted[local].get(number) ?? 0) + CONTEXTS[index]);
    });
    return wanted.map((it) => [...it].sort(([, one], [, other]) => other - one).map(([number]) => number));
  }

  keep(one, numbers) {
    this.each(one, numbers, (local, index, context) => this.last[index].set(context, numbers[local]));
  }
}

/** Exchanges the numbers of two variables wherever that makes the function smaller; true if it did. */
function exchange(one, numbers, code, contexts) {
  const first = code.cost(code.write(one, numbers));
  let least = first;
  const wanted = contexts.wanted(one, numbers);
  for (const { from, to } of one.groups) {
    const lowest = Array.from({ length: Math.min(to - from, TRIES) }, (_, it) => from + it);
    for (let local = from; local < to && to - from > 1; local++) {
      const tried = wanted[local].filter((it) => it >= from && it < to);
      for (const number of new Set([...tried, ...lowest].slice(0, TRIES))) {
        const [other, before] = [numbers.indexOf(number), numbers[local]];
        if (other === local) continue;
        [numbers[local], numbers[other]] = [number, before];
        const bits = code.cost(code.write(one, numbers));
        if (bits < least) least = bits;
        else [numbers[local], numbers[other]] = [before, number];
      }
    }
  }
  return least < first;
}

const [path] = process.argv.slice(2);
const module = readFileSync(path);
const { functions, section } = functionsOf(module);
const code = new Compressed(2 * module.length);
const contexts = new Numbers(code);
const bodies = functions.map((one) => {
  const numbers = Int32Array.from({ length: one.count }, (_, it) => it);
  for (let pass = 0; pass < PASSES && exchange(one, numbers, code, contexts); pass++);
  const end = code.write(one, numbers);
  contexts.keep(one, numbers);
  const body = Buffer.concat([one.head, code.bytes.subarray(code.end, end)]);
  code.cost(end, true);
  return Buffer.concat([Buffer.from(numberBytes(body.length)), body]);
});
const content = Buffer.concat([Buffer.from(numberBytes(bodies.length)), ...bodies]);
const head = Buffer.from([module[section.start], ...numberBytes(content.length)]);
const result = Buffer.concat([module.subarray(0, section.start), head, content, module.subarray(section.to)]);
if (!WebAssembly.validate(result)) throw new Error(`${path} would not be a module any more`);
writeFileSync(path, result);
