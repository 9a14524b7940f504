// The door for Node.js: WebAssembly is read from the file beside.
import { readFileSync } from "node:fs";
import { initSync } from "./varvite.js";

initSync({ module: readFileSync(new URL("varvite_bg.wasm", import.meta.url)) });
import { Entries } from "./varvite.js";

// `for (const [key, value] of table.range())`.
Entries.prototype[Symbol.iterator] ??= function () {
  return this;
};
export * from "./varvite.js";
