// The door for browsers and workers: WebAssembly is fetched from the file beside.
import init from "./checker.js";

await init();
export * from "./checker.js";
