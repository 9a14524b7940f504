// The pages in headless Chromium: every screen of every store of the server at the address that is given, wide and
// narrow, dark and light, by the keyboard, with axe where it is there. Says what is wrong and ends with 1.
// Usage: node browser.mjs URL [FOLDER FOR PICTURES]
// With GROWING=NAME:PROCESS the trace of that name is recorded by that process, which rests until it is told to go on.
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [url, pictures] = process.argv.slice(2);
const require = createRequire(import.meta.url);
let axe = null;
try {
  axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
} catch {
  // Where every tool must be there, pages that axe did not look at have not passed.
  if (process.env.CI) {
    console.log("FAILED: axe-core is not there; bindings/toolchains js installs it");
    process.exit(1);
  }
  console.log("skipped: axe-core is not there, so nothing is said of who cannot see the pages");
}
if (pictures) mkdirSync(pictures, { recursive: true });
const wrong = [];
const expect = (holds, what) => holds || (wrong.push(what), console.log(`wrong: ${what}`));

const folder = mkdtempSync(join(tmpdir(), "explorer-"));
const browser = await chromium.launchPersistentContext(folder, {
  executablePath: process.env.VARVITE_CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = browser.pages()[0] ?? (await browser.newPage());
// What charts write, by canvas, with the place of each text: what a page cannot be asked for.
await page.addInitScript(() => {
  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...all) {
    this.canvas.written = [];
    return clearRect.apply(this, all);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    const at = this.getTransform().transformPoint({ x, y });
    const wide = this.measureText(text).width;
    const left = { left: 0, center: wide / 2, right: wide, start: 0, end: wide }[this.textAlign];
    if (text.trim()) (this.canvas.written ??= []).push({ text, x: at.x - left, y: at.y, wide });
    return fillText.call(this, text, x, y, ...more);
  };
});
page.on("console", (line) => ["error", "warning"].includes(line.type()) && !/40[0-9]|50[03]/.test(line.text()) && expect(false, `console: ${line.text()}`));
page.on("pageerror", (error) => expect(false, `script: ${error.message}`));
page.on("request", (request) => expect(request.url().startsWith(url) || /^(data|blob):/.test(request.url()), `asks for ${request.url()}`));

const asked = [];
page.on("request", (request) => asked.push(new URL(request.url()).pathname));

const settle = () => page.waitForFunction(() => !document.querySelector("main [role=status]")?.textContent.startsWith("reading"), null, { timeout: 15_000 });
async function open(hash) {
  await page.goto("about:blank");
  await page.goto(url + hash);
  await page.waitForSelector("main h1");
  await settle();
}

/** What stands at the axes of charts is not cut by their edge, and no label is over another. */
async function axes(name) {
  const faults = await page.evaluate(() =>
    [...document.querySelectorAll("canvas")].flatMap((canvas) => {
      const all = canvas.written ?? [];
      const cut = all.filter((it) => it.x < -1 || it.x + it.wide > canvas.width + 1).map((it) => `${it.text} is cut`);
      const beside = (one, other) => one !== other && Math.abs(one.y - other.y) < 2 && one.x <= other.x && one.x + one.wide > other.x;
      const over = all.flatMap((one) => all.filter((other) => beside(one, other)).map((other) => `${one.text} is over ${other.text}`));
      return [...cut, ...over];
    }),
  );
  expect(!faults.length, `${name}: at the axes ${faults.slice(0, 3).join("; ")}`);
}

/** No text is cut by the window, and axe finds nothing serious. */
async function look(name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(wide <= 0, `${name} is ${wide} pixels wider than the window`);
  await axes(name);
  const alerts = await page.locator("[role=alert]").allTextContents();
  expect(!alerts.length, `${name} says ${alerts.join("; ")}`);
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
  if (!axe) return;
  // By the protocol, which the pages' policy has no say in.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const it of found.violations.filter((it) => ["serious", "critical"].includes(it.impact))) {
    expect(false, `${name}: axe: ${it.id}: ${it.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`);
  }
}

const overview = await (await fetch(url + "api/overview")).json();
const screens = { context: ["overview", "commits", "tree", "diff", "space", "collection", "io"], tables: ["overview", "shape", "space", "io"] };
screens.irmin = screens.context.filter((it) => it !== "collection");
const linked = () => page.getByRole("link", { name: "link to this" }).first().getAttribute("href");
const hash = () => page.evaluate(() => location.hash);

/** Every link, button and field is reached by the Tab key, whatever is around it. */
async function walk(name) {
  const all = await page.evaluate(() => {
    const inputs = "a[href], button, input, select, summary, [tabindex='0']";
    const reached = [...document.querySelectorAll(inputs)].filter((it) => it.checkVisibility() && !it.disabled && it.tabIndex >= 0);
    reached.forEach((it) => (it.dataset.reached = "no"));
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    return reached.length;
  });
  // A page that is as long as a table is walked through once, and not without end.
  for (let at = 0; at < Math.min(all + 2, 600); at++) {
    await page.keyboard.press("Tab");
    await page.evaluate(() => document.activeElement?.dataset.reached && (document.activeElement.dataset.reached = "yes"));
  }
  const missed = await page.evaluate(() => [...document.querySelectorAll("[data-reached=no]")].map((it) => it.outerHTML.slice(0, 80)));
  expect(all > 600 || !missed.length, `${name}: the Tab key does not reach ${missed.slice(0, 3).join(" | ")}`);
}

const [growing, recorder] = process.env.GROWING?.split(":") ?? [];
const settledTraces = overview.traces.flatMap((name, at) => (name === growing ? [] : [at])).join(",");
const traced = overview.traces.length ? ["timeline", "actions", "ranges", ...(overview.traces.length > 1 ? ["compare"] : [])] : [];

// Every screen in each of four looks, turned from one to the next where it is open.
const looks = [[1280, "light"], [390, "dark"], [1280, "dark"], [390, "light"]];
const places = overview.stores.flatMap((store) => screens[store.kind].map((screen) => [store, screen, "", store.name]));
for (const screen of traced) {
  // Of one trace a screen; what is laid beside each other is all of them. One that grows is looked at by itself.
  const each = screen === "compare" ? [["compare", "all"]] : overview.traces.map((name, at) => [`&trace=${at}`, name]).filter(([, name]) => name !== growing);
  places.push(...each.map(([query, name]) => [overview.stores[0], screen, screen === "compare" ? `&traces=${settledTraces}` : query, name]));
}
for (const [store, screen, query, name] of places) {
  const [first] = looks;
  await page.setViewportSize({ width: first[0], height: 900 });
  await page.emulateMedia({ colorScheme: first[1] });
  await open(`#/${screen}?store=${store.store}${query}`);
  for (const [at, [width, colorScheme]] of looks.entries()) {
    if (at) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      // Charts follow the width, and draw again for the colours.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)))));
      await settle();
    }
    await look(`${name}-${screen}-${width}-${colorScheme}`);
    // By the keyboard once, whichever way it is looked at.
    if (!at) await walk(`${name}-${screen}`);
  }
}

// The tree by the keyboard: to the first link of the table, in, back, and a proof.
const context = overview.stores.find((it) => it.kind === "context" && it.about?.commits);
if (context) {
  await page.setViewportSize({ width: 1280, height: 900 });
  await open(`#/tree?store=${context.store}`);
  const first = await page.locator("tbody a").first().textContent();
  for (let at = 0; at < 60 && !(await page.evaluate(() => document.activeElement?.closest("tbody") != null)); at++) await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.activeElement.matches(":focus-visible")), "the focus is not seen");
  await page.keyboard.press("Enter");
  await page.waitForFunction((first) => [...document.querySelectorAll(".crumbs a")].at(-1)?.textContent === first, first, { timeout: 10_000 });
  const address = page.url();
  await settle();
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll(".crumbs a").length === 1, null, { timeout: 10_000 });
  await page.goto("about:blank");
  await page.goto(address);
  await page.waitForFunction((first) => [...document.querySelectorAll(".crumbs a")].at(-1)?.textContent === first, first, { timeout: 10_000 });
  await settle();
  await page.getByRole("button", { name: "prove it" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=varvite proof check");
  // Each encoding is a file of its own, which the command beside it names.
  for (const encoding of ["v2", "v1", "json"]) {
    await page.getByRole("button", { name: encoding }).press("Enter");
    const link = page.locator(`a[download$='.${encoding}']`);
    await link.waitFor();
    const download = page.waitForEvent("download");
    await link.press("Enter");
    const name = (await download).suggestedFilename();
    const command = await page.locator("pre").first().textContent();
    expect(command.includes(` ${name} `), `the command is not of ${name}: ${command}`);
  }
  // Beside a writer the commit that is shown turns, and a proof of the one before is no proof of it.
  const commits = await (await fetch(`${url}api/commits?store=${context.store}&limit=2`)).json();
  const older = commits.commits[1]?.hash;
  if (older) {
    await open(`#/tree?store=${context.store}`);
    await page.getByRole("button", { name: "prove it" }).press("Enter");
    await page.waitForSelector("text=varvite proof check");
    await page.route("**/api/tree?*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), commit: older } });
    });
    await page.route("**/api/pulse*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), revision: "another" } });
    });
    await page.waitForFunction((older) => document.body.textContent.includes(older), older, { timeout: 10_000 });
    expect(!(await page.locator("main").textContent()).includes("varvite proof check"), "the proof of another commit is shown");
    const proved = page.waitForRequest("**/api/proof?*");
    await page.getByRole("button", { name: "prove it" }).press("Enter");
    expect((await proved).url().includes(older), "what is proved is not what is shown");
    await page.unroute("**/api/tree?*");
    await page.unroute("**/api/pulse*");
  }
  // The first value that there is, as a page of its own.
  let path = "";
  for (let depth = 0; depth < 12; depth++) {
    const at = await (await fetch(`${url}api/tree?store=${context.store}&path=${path}&limit=1`)).json();
    if (at.kind === "value") break;
    path += "/" + at.children[0].name_hex.replace(/../g, "%$&");
  }
  await open(`#/tree?store=${context.store}&path=${path}`);
  expect(await page.getByText("hexadecimal").isVisible(), "the value is not shown");
  await look("a value");
  await walk("a value");
  // What nobody writes is said, and no page is empty for it.
  for (const odd of [`#/diff?store=${context.store}&after=%zz`, `#/space?store=${context.store}&commits=%`]) {
    await open(odd);
    expect(await page.getByRole("alert").first().isVisible(), `${odd} says nothing`);
  }
}

// What the address shows first is asked for once, before the script is there, and not again without a reason.
if (context) {
  asked.length = 0;
  await open(`#/tree?store=${context.store}`);
  await page.waitForSelector("tbody tr");
  await page.waitForFunction(() => performance.getEntriesByType("resource").some((it) => it.name.includes("/api/pulse")));
  const times = (path) => asked.filter((it) => it === path).length;
  const late = await page.evaluate(() => {
    const of = (part) => performance.getEntriesByType("resource").find((it) => it.name.includes(part));
    return of("/api/pulse").responseEnd - of("/api/overview").startTime > 900;
  });
  for (const path of ["/api/tree", "/api/overview"]) expect(late || times(path) === 1, `${path} is asked for ${times(path)} times`);
  // Where the first pulse is late the store may have changed since: what is shown is asked for once more.
  await page.goto("about:blank");
  await page.route("**/api/pulse*", (route) => setTimeout(() => route.continue().catch(() => {}), 1500));
  asked.length = 0;
  await open(`#/tree?store=${context.store}`);
  for (let tries = 0; tries < 100 && times("/api/tree") < 2; tries++) await page.waitForTimeout(100);
  expect(times("/api/tree") === 2, `behind a late pulse the tree is asked for ${times("/api/tree")} times`);
  await page.unroute("**/api/pulse*");
}

// A store that is being opened is said to be, is asked for about once a second, and is there when it is open; one that there was
// no time for is said to be that, and is not asked for again and again.
if (context) {
  let now = "opening";
  const times = (path) => asked.filter((it) => it === path).length;
  const another = { opening: { about: undefined, opening: true }, cut: { about: undefined, is_cut: true }, open: {} };
  await page.route("**/api/overview*", async (route) => {
    const response = await route.fetch();
    const said = await response.json();
    said.stores = said.stores.map((it) => (it.store === context.store ? { ...it, ...another[now] } : it));
    await route.fulfill({ response, json: said });
  });
  await page.route("**/api/pulse*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), ...(now === "opening" ? { opening: true, revision: null } : {}) } });
  });
  await page.route("**/api/tree?*", (route) =>
    now === "opening" ? route.fulfill({ status: 503, json: { error: { kind: "Busy", message: "the store is being opened" } } }) : route.continue(),
  );
  await open(`#/overview?store=${context.store}`);
  expect(await page.getByText("opening…").isVisible(), "a store that is being opened is not said to be");
  await look("opening");
  asked.length = 0;
  await page.waitForTimeout(4_200);
  expect(times("/api/overview") >= 2 && times("/api/overview") <= 5, `while a store is being opened it is asked for ${times("/api/overview")} times in 4 s`);
  // Its other screens wait, without a fault.
  await page.goto("about:blank");
  await page.goto(`${url}#/tree?store=${context.store}`);
  await page.waitForTimeout(1_500);
  expect(/^reading/.test(await page.locator("main [role=status]").first().textContent()), "a screen of a store that is being opened does not wait");
  expect(!(await page.locator("[role=alert]").count()), "a store that is being opened is a fault");
  now = "open";
  await page.waitForSelector("tbody tr", { timeout: 10_000 });
  now = "opening";
  await open(`#/overview?store=${context.store}`);
  now = "open";
  await page.waitForFunction(() => !document.body.textContent.includes("opening…") && document.querySelector("main .tiles"), null, { timeout: 10_000 });
  for (const [is, text] of [["open", "objects found by hash"], ["cut", "There was no time to read it"]]) {
    now = is;
    await open(`#/overview?store=${context.store}`);
    expect(await page.getByText(text).isVisible(), `a store that is ${is} is not shown as that`);
    await page.waitForTimeout(500);
    asked.length = 0;
    await page.waitForTimeout(2_500);
    expect(times("/api/overview") <= 1, `a store that is ${is} is asked for ${times("/api/overview")} times in 2.5 s`);
  }
  for (const path of ["overview*", "pulse*", "tree?*"]) await page.unroute(`**/api/${path}`);
}

// What commits share: chosen by the keyboard, in the link, and gone on with where it was cut.
if (context) {
  await open(`#/space?store=${context.store}`);
  const shared = page.getByRole("region", { name: "What commits share" });
  await shared.locator("svg rect").first().waitFor();
  // Of the chunks, what is dead for these commits.
  expect((await shared.locator("svg[aria-label^='For each chunk'] g").count()) > 0, "no chunk is shown");
  await shared.getByText("chunks as a table").press("Enter");
  expect(/dead for these commits/.test(await shared.textContent()), "what is dead is not said");
  await shared.getByRole("combobox").selectOption("2");
  await page.waitForFunction(() => document.querySelectorAll("section svg[aria-label^='For each commit'] g").length === 2, null, { timeout: 10_000 });
  await shared.getByRole("button", { name: "pieces" }).press("Enter");
  await shared.getByRole("checkbox").press("Space");
  for (const part of ["last=2", "by=pieces", "without=all"]) expect(page.url().includes(part), `${part} is not in ${page.url()}`);
  await open(`#/space?store=${context.store}&pieces=5`);
  await shared.getByRole("button", { name: "go on" }).press("Enter");
  await page.waitForFunction(() => ![...document.querySelectorAll("section button")].some((it) => it.textContent === "go on"), null, { timeout: 10_000 });
  await open(`#/diff?store=${context.store}&limit=3`);
  const first = await page.locator("tbody tr").first().textContent();
  await page.getByRole("button", { name: "go on" }).press("Enter");
  await page.waitForFunction((first) => document.querySelector("tbody tr") && document.querySelector("tbody tr").textContent !== first, first, { timeout: 10_000 });
  expect(/from=/.test(page.url()), `where it goes on is not in ${page.url()}`);
  await page.getByRole("link", { name: "what they share on disk" }).press("Enter");
  await shared.locator("svg rect").first().waitFor();
  expect((await shared.locator("svg[aria-label^='For each commit'] g").count()) === 2, "the pair is not shown");
}

// A chart by the keyboard: a point is selected, pinned, and in the link.
if (traced.length) {
  await open("#/timeline");
  const chart = page.getByRole("slider").first();
  await chart.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  expect(/-pin=[0-9]/.test(page.url()), `the pin is not in ${page.url()}`);
  expect(/,/.test(await chart.getAttribute("aria-valuetext")), "the point is not said");
  await page.keyboard.press("+");
  expect(/-zoom=/.test(page.url()), `the zoom is not in ${page.url()}`);
  expect((await linked()) === (await hash()) && /-zoom=.*-pin=|-pin=.*-zoom=/.test(await linked()), `the link ${await linked()} is not to ${await hash()}`);
  const told = await chart.getAttribute("aria-valuetext");
  await open(await linked());
  expect((await page.getByRole("slider").first().getAttribute("aria-valuetext")) === told, "the link leads to another point");
  // Zoomed in, the keys begin with a point in view, and what is in view follows the one that is selected.
  const { activity } = await (await fetch(`${url}api/trace`)).json();
  const nameOf = async () => (await chart.getAttribute("aria-valuetext")).split(": ")[0];
  const zoom = () => /-zoom=([^&]*)/.exec(page.url())[1].split(",").map(Number);
  await open("#/timeline");
  await chart.focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const wide = zoom();
  const inView = activity.filter((it) => it.second >= wide[0] && it.second <= wide[1]).length;
  await page.keyboard.press("ArrowRight");
  const begin = await nameOf();
  expect(begin !== "nothing selected", "no point is selected where it is zoomed");
  for (let turn = 0; turn < inView + 1; turn++) await page.keyboard.press("ArrowRight");
  expect((await nameOf()) !== begin && zoom()[0] > wide[0] && zoom()[1] <= activity.at(-1).second, `behind ${wide} the keys lead to ${await nameOf()}, ${zoom()}`);
  await page.keyboard.press("Enter");
  expect(/-pin=[0-9]/.test(page.url()), `what is selected behind the zoom is not pinned: ${page.url()}`);
  for (let turn = 0; turn < inView * 2; turn++) await page.keyboard.press("ArrowLeft");
  expect(zoom()[0] < wide[0], `before ${wide} the keys lead to ${await nameOf()}, ${zoom()}`);
  for (const key of ["End", "Home"]) {
    await page.keyboard.press(key);
    expect(+(await chart.getAttribute("aria-valuenow")) === (key === "End" ? activity.length - 1 : 0), `${key} leads to ${await nameOf()}`);
  }
  expect((await nameOf()) !== "nothing selected" && zoom()[0] === activity[0].second, `Home leads to ${await nameOf()}, ${zoom()}`);
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 80);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 80, { steps: 4 });
  await page.mouse.up();
  await chart.press("Escape");
  expect(!/-(zoom|pin)=/.test(page.url()), `Escape leaves ${page.url()}`);
  // Blocks are points: one that is pinned is named, and is another one beside it.
  await open("#/timeline");
  const blocks = page.getByRole("slider", { name: /block by block/ });
  await blocks.focus();
  const named = [];
  for (let turn = 0; turn < 2; turn++) {
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    named.push(await page.locator(".panel", { has: blocks }).locator("p").textContent());
  }
  expect(named[0] !== named[1] && named.every((it) => /in calls/.test(it)), `pinned blocks are ${named.join(" and ")}`);
  expect(/commits-pin=/.test(await linked()) && (await linked()) === (await hash()), `the link ${await linked()} is not to ${await hash()}`);
  // A pinned one leads to its commit, in each store that could have it.
  const pinned = page.url();
  await page.locator(".panel", { has: blocks }).getByRole("link", { name: `in ${context.name}`, exact: true }).press("Enter");
  await page.waitForSelector(".crumbs");
  await settle();
  const lost = await page.locator("[role=alert]").allTextContents();
  expect(!lost.length && page.url().includes(`store=${context.store}`), `a pinned block leads to ${page.url()}: ${lost.join("; ")}`);
  await open(pinned.slice(pinned.indexOf("#")));
  await blocks.hover({ position: { x: 200, y: 80 } });
  await page.waitForFunction(() => /^block [0-9,]+: /.test(document.querySelector("[aria-label*='block by block']").getAttribute("aria-valuetext")));
  const area = await blocks.boundingBox();
  await page.mouse.move(area.x + area.width * 0.4, area.y + 80);
  await page.mouse.down();
  await page.mouse.move(area.x + area.width * 0.6, area.y + 80, { steps: 4 });
  await page.mouse.up();
  expect(/commits-zoom=/.test(page.url()), `the zoom is not in ${page.url()}`);
  // Every chart has its values: of each link the first line has more than one column, and none is JSON.
  for (const screen of traced) {
    await open(`#/${screen}`);
    const links = await page.getByRole("link", { name: /^CSV/ }).evaluateAll((all) => all.map((it) => it.href));
    expect(links.length > (screen === "ranges" ? 0 : 1), `${screen} has ${links.length} links to values`);
    for (const link of links) {
      const text = await (await fetch(link)).text();
      // What has no row, as of actions that one run alone called, has columns all the same.
      expect(text.split("\r\n")[0].includes(",") && !text.includes('{""'), `${link} gives ${text.slice(0, 100)}`);
    }
  }
  // What is switched and opened is in the link too.
  await open("#/ranges");
  await page.getByRole("button", { name: "time of all" }).press("Enter");
  expect((await linked()) === (await hash()) && /by=total/.test(await linked()), `the link ${await linked()} is not to ${await hash()}`);
  await open("#/actions");
  await page.locator("tbody button").first().press("Enter");
  expect((await linked()) === (await hash()) && /open=/.test(await linked()), `the link ${await linked()} is not to ${await hash()}`);
  const rows = await page.locator("tbody tr").count();
  await open(await linked());
  expect((await page.locator("tbody tr").count()) === rows, "what was opened is not open in its link");
  if (traced.includes("compare")) {
    await open("#/compare");
    await page.getByRole("combobox", { name: "action" }).selectOption({ index: 1 });
    expect((await linked()) === (await hash()) && /action=/.test(await linked()), `the link ${await linked()} is not to ${await hash()}`);
  }
  // Beside a replay that is under way the figures of its trace go on.
  if (growing) {
    await open(`#/timeline?trace=${overview.traces.indexOf(growing)}`);
    const calls = () => page.evaluate(() => [...document.querySelectorAll(".tiles div")].find((it) => it.querySelector("dt").textContent === "calls")?.querySelector("dd").textContent);
    const before = await calls();
    process.kill(+recorder, "SIGCONT");
    const turned = await page.waitForFunction((before) => {
      const now = [...document.querySelectorAll(".tiles div")].find((it) => it.querySelector("dt").textContent === "calls")?.querySelector("dd").textContent;
      return now && now !== before && now;
    }, before, { timeout: 30_000 });
    const number = (text) => +text.replaceAll(",", "");
    expect(number(await turned.jsonValue()) > number(before), `${growing} had ${before} calls and has ${await turned.jsonValue()}`);
    await look(`${growing}-under-way`);
    process.kill(+recorder, "SIGSTOP");
  }
  // A trace that grows is asked for again.
  await open("#/timeline");
  await page.waitForFunction(() => performance.getEntriesByType("resource").some((it) => it.name.includes("/api/pulse")));
  asked.length = 0;
  await page.route("**/api/pulse*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), trace_bytes: [asked.length] } });
  });
  for (let tries = 0; tries < 100 && !asked.includes("/api/trace/activity"); tries++) await page.waitForTimeout(100);
  expect(asked.includes("/api/trace/activity"), "a trace that grew is not asked for again");
  await page.unroute("**/api/pulse*");
}

// How long until the first rows of a large directory are there, in a page that was never open: of the largest that there is.
let large = null;
for (const store of overview.stores.filter((it) => it.kind === "context")) {
  const look = async (path) => {
    const at = await (await fetch(`${url}api/tree?store=${store.store}&path=${path}&limit=100`)).json();
    if (at.length >= (large?.length ?? 50_000)) large = { store: store.store, path, length: at.length };
    // What lies below the many children of one is smaller.
    if (at.length > 20) return;
    for (const it of (at.children ?? []).filter((it) => it.kind !== "value")) await look(`${path}/${it.name_hex.replace(/../g, "%$&")}`);
  };
  await look("");
}
expect(large, "there is no large directory");
if (large) {
  const times = [];
  for (let run = 0; run < 5; run++) {
    await page.goto("about:blank");
    const start = Date.now();
    await page.goto(`${url}#/tree?store=${large.store}&path=${large.path}`, { waitUntil: "commit" });
    await page.waitForSelector("tbody tr");
    times.push(Date.now() - start);
  }
  // On a machine that does something else too, the best of them is what the page takes.
  console.log(`first rows of ${large.length} children after ${times.join(", ")} ms`);
  expect(!process.env.VARVITE_LARGE || Math.min(...times) <= 500, `the first rows of ${large.length} children take ${Math.min(...times)} ms`);
}
// The chunks of a context: what is live, dead, below, by the keyboard too.
if (context) {
  await open(`#/collection?store=${context.store}`);
  const chunks = page.getByRole("slider", { name: /^Chunks/ });
  await chunks.focus();
  await page.keyboard.press("ArrowRight");
  expect(/^chunk [0-9,]+: .* live/.test(await chunks.getAttribute("aria-valuetext")), `a chunk is ${await chunks.getAttribute("aria-valuetext")}`);
  // Beside a writer they stay, until they are counted again.
  asked.length = 0;
  const older = (await (await fetch(`${url}api/commits?store=${context.store}&limit=2`)).json()).commits.at(-1).hash;
  await page.route("**/api/collection*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), stays: [older] } });
  });
  await page.route("**/api/pulse*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), revision: `another ${asked.length}` } });
  });
  for (let tries = 0; tries < 100 && !asked.includes("/api/collection"); tries++) await page.waitForTimeout(100);
  await page.waitForTimeout(500);
  expect(asked.includes("/api/collection") && !asked.includes("/api/sharing"), `beside a writer the pages ask for ${[...new Set(asked)].join(" ")}`);
  const again = page.waitForRequest("**/api/sharing?*");
  await page.getByRole("button", { name: "count again" }).press("Enter");
  expect((await again).url().includes(older), "the count is not of what stays by now");
  await page.unroute("**/api/collection*");
  await page.unroute("**/api/pulse*");
}
await browser.close();
rmSync(folder, { recursive: true, force: true });
console.log(wrong.length ? `${wrong.length} wrong` : `passed: ${places.length} screens`);
process.exit(wrong.length ? 1 : 0);
