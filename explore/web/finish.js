// After the build: the licences of what is bundled, and a number of the sources that it was built from, by which a test
// tells assets that are older than they.
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const bundled = ["svelte", "uplot", "d3-hierarchy"];
const texts = bundled.map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it));
  return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
copyFileSync("src/ahead.js", "../assets/ahead.js");
writeFileSync("../assets/licences.txt", texts.join("\n----\n\n"));

// FNV-1a over names and contents; the test in ../tests has the same.
const files = ["index.html", "package-lock.json", "package.json", "vite.config.js", "finish.js"];
files.push(...readdirSync("src").map((name) => `src/${name}`));
files.sort();
let hash = 0xcbf29ce484222325n;
for (const name of files) {
  for (const byte of Buffer.concat([Buffer.from(`${name}\0`), readFileSync(name)])) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
}
writeFileSync("../assets/source.txt", hash.toString(16).padStart(16, "0"));
