// What a page loads: compressed as a server sends it, by gzip itself. Node.js has a zlib of its own, whose
// result is half a percent longer: the package that gzip says is within the limit would be beyond it.
import { execFileSync } from "node:child_process";

const folder = process.argv[2];
const limits = { checker_bg: 103_000, varvite_bg: 437_000 };
for (const [name, limit] of Object.entries(limits)) {
  const bytes = execFileSync("gzip", ["-9nc", `${folder}/${name}.wasm`], { maxBuffer: 1 << 24 }).length;
  console.log(`${name}: ${bytes} bytes compressed, passed`);
  if (bytes > limit) throw new Error(`${name} takes ${bytes} bytes compressed, and at most ${limit} are allowed`);
}
