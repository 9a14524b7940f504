// Puts the functions of a module, as Binaryen writes it as text, in an order that gzip compresses better: behind each other what has
// bytes in common, within what gzip looks back at. What a load or a store says of its alignment goes: a hint that nobody follows.
// Usage: node order.mjs MODULE.wasm MODULE.wat   the same module twice; the text is written anew
import { readFileSync, writeFileSync } from "node:fs";
import { functionsOf } from "./module.mjs";

/** Bytes that count as in common: so many in a row. */
const IN_A_ROW = 8;
/** A row is told from others by a number below this. */
const RUNS = 2 ** 42;
/** What more functions than this have in common, gzip finds anywhere. */
const SHARED_MAX = 60;
/** How far back a function is looked for, in bytes: less than gzip does, which needs some for the function itself. */
const WINDOW_BYTES = 30_000;
/** What a function has in common counts for its length; so that the smallest do not come first because of a little, this is added
 * to the length, and the power taken. */
const FLAT_BYTES = 20;
const POWER = 0.65;
const ALIGNED = /^( *\([if](?:32|64)\.(?:load|store)\w*(?: offset=\d+)?) align=\d+/gm;

/** The bytes of a function with all variables as one: `locals.mjs` numbers them anew for what is before them. */
function codeOf({ head, parts }) {
  return Buffer.concat([head, ...parts.flatMap(({ bytes }, index) => (index ? [Buffer.of(0), bytes] : [bytes]))]);
}

/** For each function the runs of bytes that some others have too, as small numbers. */
function sharedRuns(functions) {
  const users = new Map();
  functions.forEach((body, index) => {
    const own = new Set();
    for (let from = 0; from + IN_A_ROW <= body.length; from++) {
      let run = 0;
      for (let next = from; next < from + IN_A_ROW; next++) run = (run * 257 + body[next]) % RUNS;
      own.add(run);
    }
    for (const run of own) {
      const list = users.get(run);
      if (list) list.push(index);
      else users.set(run, [index]);
    }
  });
  const runs = functions.map(() => []);
  const shared = [...users.values()].filter((it) => it.length > 1 && it.length <= SHARED_MAX);
  shared.forEach((list, run) => list.forEach((index) => runs[index].push(run)));
  // What few have in common is found nowhere else.
  return { runs, users: shared, weights: shared.map((list) => (list.length - 1) ** -0.5) };
}

/** Begins with the first function, and goes on with the one that has most in common, for its length, with the last ones. */
function order(functions) {
  const { runs, users, weights } = sharedRuns(functions);
  const inCommon = new Float64Array(functions.length);
  const placed = new Uint8Array(functions.length);
  const seen = new Uint32Array(users.length);
  const count = (index, step) => {
    for (const run of runs[index]) {
      const before = seen[run];
      seen[run] += step;
      if (before === 0 || seen[run] === 0) for (const user of users[run]) inCommon[user] += step * weights[run];
    }
  };
  const [result, near] = [[], []];
  let nearBytes = 0;
  for (let next = 0; next !== -1; ) {
    result.push(next);
    placed[next] = 1;
    near.push(next);
    nearBytes += functions[next].length;
    count(next, 1);
    while (nearBytes > WINDOW_BYTES && near.length > 1) {
      const left = near.shift();
      nearBytes -= functions[left].length;
      count(left, -1);
    }
    let most = -1;
    next = -1;
    for (let index = 0; index < functions.length; index++) {
      if (placed[index]) continue;
      const score = inCommon[index] / (functions[index].length + FLAT_BYTES) ** POWER;
      if (score > most) [most, next] = [score, index];
    }
  }
  return result;
}

const [module, path] = process.argv.slice(2);
const lines = readFileSync(path, "utf8").split("\n");
const end = lines.lastIndexOf(")");
const [others, functions] = [[], []];
for (let at = 1; at < end; at++) {
  if (lines[at].startsWith(" (func $")) functions.push({ from: at, to: at + 1 });
  else if (lines[at].startsWith(" (")) others.push({ from: at, to: at + 1 });
  else (functions.at(-1)?.to === at ? functions : others).at(-1).to = at + 1;
}
const code = functionsOf(readFileSync(module)).functions.map(codeOf);
if (code.length !== functions.length) {
  throw new Error(`${module} has ${code.length} functions, and its text ${functions.length}`);
}
const text = [...others, ...order(code).map((it) => functions[it])].map((it) => lines.slice(it.from, it.to).join("\n"));
writeFileSync(path, [lines[0], ...text, ")", ""].join("\n").replace(ALIGNED, "$1"));
