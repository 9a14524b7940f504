// What JavaScript's calls cost beside native Rust: processor time of the same work on two equal stores in memory, by turns.
// `bench/run` builds what it needs. The Rust side is `bindings/python/examples/beside.rs`, a process of its own that does a
// round when it is asked. What a round looks at is made before it on both sides, and not counted. Shown is the lower quartile
// of the rounds. The table is measured twice: with a cache that has all of its pages, which were verified when they came
// there, and without one, where each read of a page computes its checksum, for which WebAssembly has no instruction.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Batch, Disk, Session, Store } from "varvite";

const [program, entries = 1_000_000, accounts = 100_000, rounds = 21] = process.argv.slice(2).map((it, at) => (at ? Number(it) : it));
const [BATCH, BATCHES, KEY] = [256, 100, 34];
const MASK = (1n << 64n) - 1n;

/** Numbers that look unrelated. Source: Steele et al. 2014 (SplitMix64). */
function mix(number) {
  let z = (number * 0x9e3779b97f4a7c15n) & MASK;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return z ^ (z >> 31n);
}

/** Keys behind each other. */
function keysOf(numbers) {
  const keys = new Uint8Array(numbers.length * KEY);
  const part = new DataView(new ArrayBuffer(40));
  numbers.forEach((number, at) => {
    for (let it = 0; it < 5; it++) part.setBigUint64(it * 8, mix(number * 8n + BigInt(it)), true);
    keys.set(new Uint8Array(part.buffer, 0, KEY), at * KEY);
  });
  return keys;
}

const nameOf = (number) => mix(number).toString(16).padStart(16, "0");

function pick(round, of) {
  const batches = [];
  for (let batch = 0; batch < BATCHES; batch++) {
    const first = (BigInt(round) * BigInt(BATCHES) + BigInt(batch)) * 1000n;
    batches.push(Array.from({ length: BATCH }, (_, at) => mix(first + BigInt(at)) % BigInt(of)));
  }
  return batches;
}

/** A table with its session; what native Rust does beside it is asked by `ask`. */
function tableWith(memoryBytes) {
  const session = Session.create(Disk.memory(1), memoryBytes ? { memoryBytes } : {});
  const table = session.createTable("t", { preset: "utxo" });
  for (let first = 0; first < entries; first += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, entries - first) }, (_, at) => BigInt(first + at));
    const batch = new Batch();
    batch.insertRows(keysOf(numbers), KEY, values.subarray(0, numbers.length * 60), 60);
    table.update(batch);
    batch.free();
  }
  return { session, table };
}

const values = new Uint8Array(BATCH * 60).fill(7);
let table;
const store = Store.create(Disk.memory(1));
let tree = store.emptyTree();
const balance = (number) => {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number));
  return bytes;
};
for (let number = 0; number < accounts; number++) tree.add(["data", "contracts", nameOf(BigInt(number)), "balance"], balance(number));
tree = store.checkout(store.commit(tree));

const tasks = {
  lookup: ["a key of a lookup of 256", BATCH * BATCHES, ({ keys }) => {
    for (const batch of keys) if (table.lookupRows(batch, KEY).found.includes(0)) throw new Error("a key is not found");
  }],
  update: ["an operation of an update of 256", BATCH * BATCHES, ({ keys }) => {
    for (const rows of keys) {
      const batch = new Batch();
      batch.insertRows(rows, KEY, values, 60);
      table.update(batch);
      batch.free();
    }
  }],
  get: ["a get", BATCH * BATCHES, ({ single }) => {
    for (const key of single) if (!table.get(key)) throw new Error("a key is not found");
  }],
  find: ["a find", BATCH * BATCHES, ({ paths }) => {
    for (const path of paths) if (!tree.find(path)) throw new Error("an account is not found");
  }],
  commit: ["a change of a commit of 2,560", BATCH * 10, ({ paths, round }) => {
    const value = balance(round);
    for (const path of paths.slice(0, BATCH * 10)) tree.add(path, value);
    store.commit(tree);
  }],
};

function run(name, round) {
  const picked = pick(round, name === "find" || name === "commit" ? accounts : entries);
  const given = { round, keys: picked.map(keysOf), single: [], paths: [] };
  if (name === "get") for (const keys of given.keys) for (let at = 0; at < BATCH; at++) given.single.push(keys.slice(at * KEY, (at + 1) * KEY));
  if (name === "find" || name === "commit") given.paths = picked.flat().map((it) => ["data", "contracts", nameOf(it), "balance"]);
  const start = process.cpuUsage();
  tasks[name][2](given);
  const { user, system } = process.cpuUsage(start);
  return (user + system) * 1000;
}

/** A process of native Rust that does a round when it is asked. */
async function native(memoryBytes) {
  const rust = spawn(program, [entries, accounts, memoryBytes], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: rust.stdout })[Symbol.asyncIterator]();
  const answer = async () => (await lines.next()).value;
  if ((await answer()) !== "ready") throw new Error("the Rust side is not ready");
  const ask = async (name, round) => {
    rust.stdin.write(`${name} ${round}\n`);
    return Number(await answer());
  };
  return { ask, end: () => rust.stdin.end() };
}

async function compare(title, names, rust) {
  for (const name of names) {
    const [what, count] = tasks[name];
    const times = [[], []];
    for (let round = 1; round <= rounds; round++) {
      for (const side of round % 2 ? [0, 1] : [1, 0]) {
        times[side].push((side ? run(name, round) : await rust.ask(name, round)) / count);
      }
    }
    const [one, other] = times.map((it) => it.sort((one, other) => one - other)[Math.floor(rounds / 4)]);
    console.log(`${what}, ${title}`.padEnd(60), `${one.toFixed(0)} ns`.padStart(10), `${other.toFixed(0)} ns`.padStart(12), (other / one).toFixed(2).padStart(7));
  }
}

console.log("processor time of".padEnd(60), "native".padStart(10), "JavaScript".padStart(12), "times".padStart(7));
// Twice what the entries take, so that nothing leaves the cache.
const all = entries * 256;
for (const [title, memoryBytes] of [["from its cache", all], ["verified at each read", 0]]) {
  const rust = await native(memoryBytes);
  const made = tableWith(memoryBytes);
  table = made.table;
  await compare(title, ["lookup", "update", "get"], rust);
  if (memoryBytes) await compare(title, ["find", "commit"], rust);
  table.close();
  made.session.close();
  rust.end();
}
