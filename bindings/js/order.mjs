// Puts the functions of a module, as Binaryen writes it as text, in the order of their names without the hashes behind them:
// what was made of one function for several types comes together, within what gzip looks back at.
import { readFileSync, writeFileSync } from "node:fs";

const [path] = process.argv.slice(2);
const lines = readFileSync(path, "utf8").split("\n");
const end = lines.lastIndexOf(")");
const [others, functions] = [[], []];
for (let at = 1; at < end; at++) {
  if (lines[at].startsWith(" (func $")) {
    const [, name] = /^ \(func \$("[^"]*"|\S+)/.exec(lines[at]);
    functions.push({ name: name.replace(/::h[0-9a-f]{16}|_\d+$/g, ""), from: at, to: at + 1 });
  } else if (lines[at].startsWith(" (")) {
    others.push({ from: at, to: at + 1 });
  } else {
    const last = Math.max(others.at(-1)?.to ?? 0, functions.at(-1)?.to ?? 0);
    (functions.at(-1)?.to === last ? functions : others).at(-1).to = at + 1;
  }
}
const length = (it) => it.to - it.from;
const first = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
functions.sort((one, other) => first(one.name, other.name) || length(one) - length(other) || one.from - other.from);
const text = [...others, ...functions].map((it) => lines.slice(it.from, it.to).join("\n"));
writeFileSync(path, [lines[0], ...text, ")", ""].join("\n"));
