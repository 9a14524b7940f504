// In headless Chromium: disks in its private files, a worker that ends and a page that closes in the middle of writes.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { chromium } from "playwright-core";
import { Disk, Store, prove } from "varvite";

const root = new URL("..", import.meta.url).pathname;
const types = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };
const door = {
  varvite: "/node_modules/varvite/varvite-web.js",
  "varvite/checker": "/node_modules/varvite/checker-web.js",
  "varvite/opfs": "/node_modules/varvite/opfs.js",
};

const server = createServer(async (request, response) => {
  // The page that checks proofs stands beside the package, as a server would have it.
  const path = new URL(request.url, "http://localhost").pathname
    .replace(/^\/demo\/(?!checker\.html)/, "/node_modules/varvite/").replace(/^\/demo\//, "/examples/");
  try {
    let bytes = path === "/" ? Buffer.from("<!doctype html><title>tests</title>") : await readFile(root + path);
    // Workers have no import map.
    if (path === "/tests/worker.mjs") {
      bytes = bytes.toString().replace(/from "(varvite[^"]*)"/g, (_, name) => `from "${door[name]}"`);
    }
    response.setHeader("content-type", types[extname(path)] ?? "text/html");
    response.end(bytes);
  } catch {
    response.statusCode = 404;
    response.end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.env.VARVITE_CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext();
context.setDefaultTimeout(180_000);

async function opened() {
  const page = await context.newPage();
  await page.goto(address);
  return page;
}

/** Runs a task in a worker of `page`; `until` ends the worker after so many acknowledgements. */
function run(page, task, { until = 0, from = 0 } = {}) {
  return page.evaluate(({ task, until, from }) => new Promise((resolve, reject) => {
    const worker = new Worker("/tests/worker.mjs", { type: "module" });
    window.acknowledged = -1;
    worker.onerror = (event) => reject(new Error(event.message));
    worker.onmessage = ({ data }) => {
      if (data.begun) worker.postMessage({ task, from });
      if (data.thrown) reject(new Error(data.thrown));
      if (data.acknowledged !== undefined) {
        window.acknowledged = data.acknowledged;
        if (until && data.acknowledged + 1 - from >= until) {
          // In the middle of whatever it does now.
          setTimeout(() => { worker.terminate(); resolve(data.acknowledged); }, Math.random() * 10);
        }
      }
      if ("answer" in data) { worker.terminate(); resolve(data.answer); }
    };
  }), { task, until, from });
}

/** Every key has what the last acknowledged block wrote, or a later one. */
function check({ rows, values }, acknowledged) {
  for (const found of [new Map(rows), new Map(values)]) {
    for (let block = Math.max(0, acknowledged - 24); block <= acknowledged; block++) {
      for (let row = 0; row < 20; row++) {
        const key = `${(block * 20 + row) % 500}`;
        assert.ok(found.get(key) >= block, `key ${key} has block ${found.get(key)}, and ${block} was acknowledged`);
      }
    }
  }
}

let page = await opened();
const kept = await run(page, "promises");
assert.ok(kept.length > 20);
assert.equal(await run(page, "twice"), "locked");
assert.equal(await run(page, "together"), 30);
assert.deepEqual(await run(page, "closing"), ["closed", "opened"]);
let from = 0;
for (let round = 0; round < 4; round++) {
  const acknowledged = await run(page, "write", { until: 10 + round * 7, from });
  check(await retried(page), acknowledged);
  from = acknowledged + 1; // the next one may have been written, or not
}
// A page that closes while its worker writes.
run(page, "write", { from }).catch(() => {});
await page.waitForFunction((from) => window.acknowledged >= from + 10, from);
const last = await page.evaluate(() => window.acknowledged);
await page.close();
page = await opened();
check(await retried(page), last);
const shown = await demo();
await browser.close();
server.close();
console.log(`${shown} views of the page that checks proofs, ${kept.length} promises of a disk, 5 endings in the middle of writes: passed`);

/** The page that checks a pasted proof: what it says of right and wrong ones, and that it fits narrow and wide windows. */
async function demo() {
  const store = Store.create(Disk.memory());
  const tree = store.emptyTree();
  for (let number = 0; number < 40; number++) tree.add(`contracts/${number}/balance`, `${number}`);
  tree.add("contracts/7/code", new Uint8Array([0, 255, 7]));
  const { proof } = prove(tree, (it) => [it.find("contracts/7/balance"), it.find("contracts/7/code"), it.find("contracts/none")]);
  const hex = (bytes) => Buffer.from(bytes).toString("hex");
  const [bytes, root] = [hex(proof.encode("v2")), hex(tree.hash())];
  const json = Buffer.from(proof.encode("json")).toString();
  const wrongRoot = root.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
  const cases = [
    ["right", bytes, root, "good", /^The proof is right/],
    ["json", json, root, "good", /^The proof is right/],
    ["no-root", bytes, "", "", new RegExp(root)],
    ["wrong-root", bytes, wrongRoot, "bad", /./],
    ["changed", bytes.replace(/.$/, (digit) => (digit === "0" ? "1" : "0")), root, "bad", /./],
    ["garbage", "zz no proof", root, "bad", /./],
  ];
  let views = 0;
  for (const [width, colorScheme] of [[1280, "light"], [390, "light"], [1280, "dark"], [390, "dark"]]) {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.setDefaultTimeout(180_000);
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    await page.goto(`${address}/demo/checker.html`);
    for (const [name, proof, root, verdict, sentence] of cases) {
      await page.fill("#proof", proof);
      await page.fill("#root", root);
      await page.click("button");
      await page.waitForFunction(() => document.querySelector("#verdict").textContent !== "");
      assert.equal(await page.getAttribute("#verdict", "class"), verdict, name);
      assert.match(await page.textContent("#verdict"), sentence, name);
      const drawn = await page.locator("#tree code").allTextContents();
      if (verdict === "bad") assert.deepEqual(drawn, [], name);
      else {
        for (const shown of ["contracts", "7", "balance", "code"]) assert.ok(drawn.includes(shown), `${name}: ${shown} in ${drawn}`);
        assert.match(await page.textContent("#tree"), /= 7.*= 0x00ff07/s);
        assert.ok(await page.locator("#tree .hidden").count() > 0);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name}: ${wide} pixels in a window of ${width}`);
      if (process.env.VARVITE_SCREENSHOTS) {
        await page.screenshot({ path: `${process.env.VARVITE_SCREENSHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      }
      await page.evaluate(() => { document.querySelector("#verdict").textContent = ""; });
      views++;
    }
    assert.deepEqual(errors, []);
    await page.close();
  }
  return views;
}

/** The browser closes the files of a worker that ended a moment later: on a busy machine, some seconds. */
async function retried(page) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await run(page, "read");
    } catch (error) {
      if (attempt === 600 || !/is open in another tab/.test(error.message)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
