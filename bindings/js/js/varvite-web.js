// The door for browsers and workers: WebAssembly is fetched from the file beside.
import init from "./varvite.js";

await init();
import { Entries } from "./varvite.js";

// `for (const [key, value] of table.range())`.
Entries.prototype[Symbol.iterator] ??= function () {
  return this;
};
export * from "./varvite.js";
