// What a page loads: compressed as a server sends it.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const folder = process.argv[2];
const limits = { checker_bg: 103_000, varvite_bg: 444_600 };
for (const [name, limit] of Object.entries(limits)) {
  const bytes = gzipSync(readFileSync(`${folder}/${name}.wasm`), { level: 9 }).length;
  console.log(`${name}: ${bytes} bytes compressed, passed`);
  if (bytes > limit) throw new Error(`${name} takes ${bytes} bytes compressed, and at most ${limit} are allowed`);
}
