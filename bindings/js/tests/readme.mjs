// Runs the examples of the README that are JavaScript, each as a program of its own. Those for browsers run there.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const text = readFileSync(process.argv[2], "utf8");
const examples = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((it) => it[1]).filter((it) => !it.includes("OpfsDisk"));
if (examples.length < 4) throw new Error("the README has lost its examples");
examples.forEach((example, number) => {
  const path = new URL(`readme-${number}.mjs`, import.meta.url).pathname;
  writeFileSync(path, example);
  execFileSync(process.execPath, [path], { stdio: ["ignore", "inherit", "inherit"] });
});
console.log(`${examples.length} passed`);
