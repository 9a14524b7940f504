// The door for Node.js: WebAssembly is read from the file beside.
import { readFileSync } from "node:fs";
import { initSync } from "./checker.js";

initSync({ module: readFileSync(new URL("checker_bg.wasm", import.meta.url)) });
export * from "./checker.js";
