// What a program does with tables, contexts and proofs, and what it may do wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { Batch, Disk, Proof, Session, Store, Tree, prove } from "varvite";
import { Proof as CheckedProof } from "varvite/checker";

const text = (bytes) => (bytes === undefined ? undefined : new TextDecoder().decode(bytes));
const kindOf = (kind) => (error) => error.name === "VarviteError" && error.kind === kind;

test("a table keeps what a map keeps", () => {
  const session = Session.create(Disk.memory(7));
  const table = session.createTable("t", { writeBufferBytes: 2048, operator: "append" });
  const model = new Map();
  let state = 1;
  const draw = (below) => (state = (state * 48271) % 0x7fffffff) % below;
  for (let round = 0; round < 300; round++) {
    const batch = new Batch();
    for (let change = 0; change < 10; change++) {
      const key = `key ${draw(150)}`;
      const value = `${round}.${change};`;
      const what = draw(10);
      if (what < 6) { batch.insert(key, value); model.set(key, value); }
      else if (what < 8) { batch.upsert(key, value); model.set(key, (model.get(key) ?? "") + value); }
      else { batch.delete(key); model.delete(key); }
    }
    assert.equal(batch.length, 10);
    table.update(batch);
    if (round % 20 !== 0) continue;
    const keys = Array.from({ length: 150 }, (_, number) => `key ${number}`);
    assert.deepEqual(table.lookup(keys).map(text), keys.map((key) => model.get(key)));
    const sorted = [...model].sort(([one], [other]) => (one < other ? -1 : 1));
    assert.deepEqual([...table.range()].map(([key, value]) => [text(key), text(value)]), sorted);
    const back = [...table.range({ prefix: "key 1", reverse: true, keysOnly: true })].map(text);
    assert.deepEqual(back, sorted.map(([key]) => key).filter((key) => key.startsWith("key 1")).reverse());
  }
  const view = table.view();
  table.deleteRange({ from: "key 5" });
  assert.equal(view.count(), model.size);
  assert.equal([...table.range({ from: "key 5" })].length, 0);
  assert.ok(table.stats().levels >= 0);
  table.close();
  session.close();
});

test("a transaction reads what it wrote and stands whole", () => {
  const session = Session.create(Disk.memory(3), { log: "synced" });
  const batch = (...pairs) => pairs.reduce((made, [key, value]) => {
    if (value === undefined) made.delete(key); else made.insert(key, value);
    return made;
  }, new Batch());
  const [utxo, stake] = ["utxo", "stake"].map((name) => session.createTable(name, {}));
  const twin = stake.duplicate("utxo");
  assert.throws(() => session.share([utxo, twin]), kindOf("invalid"));
  utxo.update(batch(["kept", "1"])); // it was not taken
  assert.throws(() => session.share([utxo, {}]), kindOf("invalid"));
  const other = Session.create(Disk.memory(4), {});
  const foreign = other.createTable("foreign", {});
  assert.throws(() => session.share([stake, foreign, utxo]), kindOf("invalid"));
  for (const [table, name] of [[stake, "stake"], [foreign, "foreign"], [utxo, "utxo"]]) {
    table.update(batch(["kept", "1"]));
    assert.equal(table.name, name);
  }
  other.close();
  const tables = session.share([utxo, stake]);
  assert.throws(() => utxo.get("kept"), kindOf("closed"));
  assert.throws(() => session.share([utxo]), kindOf("closed"));
  assert.deepEqual(tables.names, ["stake", "utxo"]);
  const block = tables.begin();
  block.update("utxo", batch(["a", "1"], ["b", "2"]));
  assert.equal(text(block.get("utxo", "a")), "1");
  const before = block.view("utxo");
  block.update("utxo", batch(["a", undefined]));
  block.update("stake", batch(["pool", "5"]));
  assert.deepEqual(block.lookup("utxo", ["a", "b", "kept"]).map(text), [undefined, "2", "1"]);
  assert.equal(text(before.get("a")), "1");
  assert.equal(tables.get("utxo", "b"), undefined); // nobody else sees it yet
  for (const act of [
    () => tables.begin(), () => tables.commit([["utxo", batch(["c", "3"])]]), () => tables.saveSnapshot("s"), () => tables.remove("utxo"),
  ]) assert.throws(act, kindOf("locked"));
  assert.throws(() => block.update("other", batch(["a", "1"])), kindOf("missing"));
  block.commit();
  assert.throws(() => block.commit(), kindOf("closed"));
  assert.throws(() => block.get("utxo", "b"), kindOf("closed"));
  const dropped = tables.begin();
  dropped.update("utxo", batch(["d", "4"]));
  dropped.rollback();
  dropped.rollback();
  tables.commit([["utxo", batch(["e", "5"])], ["stake", batch(["pool", undefined])]]);
  assert.throws(() => tables.commit([["none", batch(["e", "5"])]]), kindOf("missing"));
  assert.deepEqual(tables.lookup("utxo", ["b", "d", "e"]).map(text), ["2", undefined, "5"]);
  assert.equal(tables.view("stake").get("pool"), undefined);
  tables.saveSnapshot("both", { label: "here", payload: "slot" });
  assert.deepEqual(session.listSnapshots()[0].tables, ["stake", "utxo"]);
  const out = tables.remove("stake");
  assert.equal(out.get("pool"), undefined);
  assert.deepEqual(tables.names, ["utxo"]);
  tables.close();
  tables.close();
  assert.throws(() => tables.names, kindOf("closed"));
  session.close();
});

test("a session with memory for pages reads the same", () => {
  assert.throws(() => Session.create(Disk.memory(), { memoryBytes: 2 ** 33 }), kindOf("invalid"));
  const session = Session.create(Disk.memory(), { memoryBytes: 1 << 20 });
  assert.throws(() => session.createTable("u", { preset: "none" }), kindOf("invalid"));
  const table = session.createTable("u", { preset: "utxo", writeBufferBytes: 2000 });
  for (let number = 0; number < 500; number++) {
    const batch = new Batch();
    batch.insert(`key ${number}`, `${number}`);
    table.update(batch);
  }
  for (const number of [0, 7, 7, 499]) assert.equal(text(table.get(`key ${number}`)), `${number}`);
  assert.equal(table.get("key 500"), undefined);
  session.close();
});

test("merge operators of the program's own join, and what they throw changes nothing", () => {
  const disk = Disk.memory(5);
  const mine = new Error("mine");
  let table, session, misuse;
  const longest = {
    name: "longest",
    join: (older, newer) => {
      if (text(newer) === "throw") throw mine;
      if (text(newer) === "number") return 7;
      // What the call that needs the operator has in use itself is refused by the glue.
      if (text(newer) === "misuse") misuse.forEach((act) => assert.throws(act, (it) => it.kind === "invalid" || /recursive use/.test(it.message)));
      return newer.length >= older.length ? newer : older;
    },
  };
  session = Session.create(disk, { log: "synced" });
  for (const wrong of ["longest", { name: "longest" }, { join: () => "" }, { name: "longest", join: "" }, { ...longest, more: 1 }, { ...longest, name: "max" }, 7]) {
    assert.throws(() => session.createTable("t", { operator: wrong }), kindOf("invalid"));
  }
  table = session.createTable("t", { operator: longest, writeBufferBytes: 3000, sizeRatio: 2 });
  const upsert = (key, value) => {
    const batch = new Batch();
    batch.upsert(key, value);
    table.update(batch);
  };
  // Through merges too.
  const model = new Map();
  for (let number = 0; number < 2000; number++) {
    const [key, value] = [`key ${(number * 37) % 150}`, `${number}`.repeat(1 + ((number * 7) % 5))];
    upsert(key, value);
    const older = model.get(key) ?? "";
    model.set(key, value.length >= older.length ? value : older);
  }
  const check = () => {
    for (const [key, value] of model) assert.equal(text(table.get(key)), value);
    assert.deepEqual(table.lookup([...model.keys()]).map(text), [...model.values()]);
    assert.deepEqual([...table.range()].map(([key, value]) => [text(key), text(value)]), [...model].sort(([one], [other]) => (one < other ? -1 : 1)));
  };
  check();
  // In a buffer that has an older value it is joined at once, by a call that fails then.
  upsert("key 1", "1");
  const before = text(table.get("key 1"));
  assert.throws(() => upsert("key 1", "throw"), (error) => error === mine);
  assert.throws(() => upsert("key 1", "number"), kindOf("invalid"));
  assert.throws(() => session.update([[table, ((batch) => (batch.upsert("key 1", "throw"), batch))(new Batch())]]), (error) => error === mine);
  assert.equal(text(table.get("key 1")), before);
  const [view, entries] = [table.view(), table.range()];
  misuse = [
    () => table.get("a"), () => table.update(new Batch()), () => table.close(), () => table.view(), () => view.get("a"), () => view.range(), () => entries.next(),
    () => session.liveTables(), () => session.close(), () => session.createTable("u", {}),
  ];
  // Twice in one batch, so that they are joined while it is applied.
  const applied = new Batch();
  applied.upsert("key 1", "misuse");
  applied.upsert("key 1", "misuse");
  const others = misuse;
  misuse = [...others, () => applied.insert("a", "b"), () => applied.upsert("a", "b"), () => applied.delete("a"), () => applied.clear()];
  table.update(applied);
  misuse = others;
  model.set("key 1", before.length > 6 ? before : "misuse");
  check();
  table.close();
  session.close();
  session = Session.open(disk, { log: "synced" });
  assert.throws(() => session.openTable("t"), kindOf("invalid"));
  table = session.openTable("t", { operators: [longest] });
  check();
  session.saveSnapshot("s", [table]);
  table.close();
  assert.throws(() => session.openSnapshot("s", "t"), kindOf("invalid"));
  table = session.openSnapshot("s", "t", { operators: [longest] });
  check();
  table.close();
  session.close();
});

test("each error of a merge operator is that of the call which needed it", () => {
  let isCalm = true;
  const thrown = [];
  const calmly = {
    name: "calmly",
    join: (older, newer) => {
      if (isCalm) return text(older) + text(newer);
      thrown.push(new Error(`mine, number ${thrown.length}`));
      throw thrown.at(-1);
    },
  };
  const one = (key, value, is = "insert") => ((batch) => (batch[is](key, value), batch))(new Batch());
  const options = { log: "written", logFileBytes: 2000 };
  const disk = Disk.memory(7);
  // A table idles while the log grows, so that a checkpoint writes it out; once it was opened again it has on disk what a
  // value in its buffer is joined to when that is done once more.
  let session = Session.create(disk, options);
  let idle = session.createTable("idle", { operator: calmly, writeBufferBytes: 700 });
  let busy = session.createTable("busy", {});
  idle.update(one("key", "one"));
  for (let number = 0; number < 300; number++) busy.update(one(`key ${number}`, "x".repeat(60)));
  session.close();
  session = Session.open(disk, options);
  [idle, busy] = [session.openTable("idle", { operators: [calmly] }), session.openTable("busy")];
  idle.update(one("key", "two", "upsert"));
  // Openings keep the errors of merges to themselves.
  const other = Disk.memory(8);
  const late = { log: "written", logFileBytes: 1 << 20 };
  const before = Session.create(other, late);
  const filled = before.createTable("t", { operator: calmly, writeBufferBytes: 700, sizeRatio: 2 });
  for (let number = 0; number < 200; number++) {
    filled.update(one(`key ${number}`, "x".repeat(90)));
    if (number >= 20) filled.update(one(`key ${number - 20}`, "!", "upsert"));
  }
  before.close();

  isCalm = false;
  for (let number = 0; session.warnings().length === 0; number++) {
    busy.update(one(`key ${number}`, "x".repeat(60)));
    assert.ok(number < 1000, "nobody wrote the idle table out");
  }
  // Two updates try once more, and throw what that threw.
  for (let turn = 0; turn < 2; turn++) {
    const count = thrown.length;
    assert.throws(() => idle.update(one("a", "b")), (error) => error === thrown[count]);
  }
  const opened = Session.open(other, late);
  const count = thrown.length;
  const table = opened.openTable("t", { operators: [calmly] });
  assert.ok(thrown.length > count, "the opening met a pair");
  assert.equal(text(table.get("key 199")), "x".repeat(90));
  // The third does not try: it tells of the second's error, which is not what another session met since.
  assert.throws(() => idle.update(one("a", "b")), (error) => !thrown.slice(count).includes(error));
  assert.throws(() => table.get("key 20"), (error) => error === thrown.at(-1));
  isCalm = true;
  assert.equal(text(table.get("key 20")), `${"x".repeat(90)}!`);
  assert.equal(text(idle.get("key")), "onetwo");
  opened.close();
  session.close();
});

test("rows of fixed widths are packed both ways", () => {
  const session = Session.create(Disk.memory());
  const table = session.createTable("t", {});
  const keys = new Uint8Array(32 * 100).map((_, at) => (at * 7 + (at >> 5)) & 255);
  const values = new Uint8Array(8 * 100).map((_, at) => at & 255);
  const batch = new Batch();
  batch.insertRows(keys, 32, values, 8);
  table.update(batch);
  const { bytes, ends, found } = table.lookupRows(keys, 32);
  assert.deepEqual(bytes, values);
  assert.ok(found.every((it) => it === 1) && ends.at(-1) === 800);
  batch.clear();
  batch.deleteRows(keys.subarray(0, 64), 32);
  table.update(batch);
  assert.deepEqual([...table.lookupRows(keys, 32).found.subarray(0, 4)], [0, 0, 1, 1]);
  assert.throws(() => table.lookupRows(keys.subarray(1), 32), kindOf("invalid"));
});

test("snapshots, live tables and batches over several tables", () => {
  const disk = Disk.memory(3);
  const session = Session.openOrCreate(disk, { log: "synced" });
  const [coins, stake] = ["coins", "stake"].map((name) => session.openOrCreateTable(name));
  const [one, other] = [new Batch(), new Batch()];
  one.insert("a", "1");
  other.insert("b", "2");
  session.update([[coins, one], [stake, other]]);
  assert.throws(() => session.update([[coins, one], [coins, other]]), kindOf("invalid"));
  session.saveSnapshot("first", [coins, stake], { label: "ledger", payload: "slot 1" });
  assert.deepEqual(session.listSnapshots().map((it) => [it.name, it.label, it.tables]), [["first", "ledger", ["coins", "stake"]]]);
  assert.equal(text(session.snapshotPayload("first")), "slot 1");
  coins.close();
  stake.close();
  session.close();
  const again = Session.open(disk, { log: "synced" });
  assert.deepEqual(again.liveTables(), ["coins", "stake"]);
  assert.equal(text(again.openTable("stake").get("b")), "2");
  assert.equal(text(again.openSnapshot("first", "coins").get("a")), "1");
  again.deleteSnapshot("first");
});

test("a context: commits, branches, proofs, collection", () => {
  const store = Store.openOrCreate(Disk.memory(5));
  const tree = store.emptyTree();
  const commits = [];
  for (let block = 0; block < 30; block++) {
    for (let row = 0; row < 30; row++) tree.add(`contracts/${(block * 11 + row) % 400}/balance`, `${block}`);
    const parents = commits.slice(-1);
    commits.push(store.commit(tree, { parents, date: block, author: "me", message: `level ${block}` }));
  }
  store.setBranch("main", commits.at(-1));
  assert.deepEqual(store.branch("main"), store.lastCommit());
  assert.equal(store.commitInfo(commits[3]).date, 3);
  const work = (it) => [text(it.find("contracts/3/balance")), it.mem(["contracts", "none"]), it.length("contracts")];
  const { proof, answer } = prove(tree, work);
  for (const encoding of ["v1", "v2", "irmin", "json"]) {
    const encoded = proof.encode(encoding);
    for (const Read of [Proof, CheckedProof]) {
      const read = Read.decode(encoded, encoding);
      assert.deepEqual(read.verify(tree.hash(), work), answer);
      assert.throws(() => read.verify(tree.hash(), (it) => it.find("contracts/4/balance")), kindOf("hidden"));
      assert.throws(() => read.verify(commits[0], work), /the proof is wrong/);
    }
  }
  assert.ok(proof.shown().some((it) => it.shown === "value" && text(it.value) === answer[0]));
  assert.ok(proof.summary().values >= 1);
  const children = tree.list("contracts", 2, 5);
  assert.equal(children.length, 5);
  assert.equal(text(children[0].tree.find("balance")), text(tree.find(["contracts", children[0].name, "balance"])));
  let seen = 0;
  tree.fold("contracts", (path, it) => { seen += it.kind === "value" && path.length === 2; });
  assert.equal(seen, tree.length("contracts"));
  assert.ok(store.collectKeeping(5));
  while (store.collectStep(1000));
  assert.equal(store.collectStatus().collections, 1);
  assert.throws(() => store.checkout(commits[0]), kindOf("collected"));
  assert.equal(text(store.checkout(commits[27]).find("contracts/300/balance")), "27");
  store.close();
});

test("what is wrong is refused by its kind, and harms nothing", () => {
  const disk = Disk.memory();
  const session = Session.create(disk);
  assert.throws(() => Session.create(disk), kindOf("exists"));
  assert.throws(() => Session.create(Disk.memory(), { logs: "synced" }), /there is no option "logs"/);
  assert.throws(() => Session.create(Disk.memory(), { log: "sync" }), /must be one of "none", "written", "synced"/);
  const table = session.createTable("t", {});
  assert.throws(() => table.get(7), kindOf("invalid"));
  assert.throws(() => table.lookup("key"), kindOf("invalid"));
  const batch = new Batch();
  batch.upsert("a", "b");
  assert.throws(() => table.update(batch), kindOf("invalid"));
  assert.throws(() => session.update([[table]]), kindOf("invalid"));
  assert.throws(() => session.saveSnapshot("s", [{}]), kindOf("invalid"));
  table.close();
  table.close();
  assert.throws(() => table.get("a"), kindOf("closed"));
  assert.throws(() => session.saveSnapshot("s", [table]), kindOf("closed"));
  session.close();
  session.close();
  assert.throws(() => session.liveTables(), kindOf("closed"));
  table.free();
  assert.throws(() => table.get("a"));
  const store = Store.create(Disk.memory());
  assert.throws(() => store.checkout("abc"), kindOf("invalid"));
  assert.throws(() => store.checkout("00".repeat(32)), kindOf("missing"));
  const tree = store.emptyTree();
  tree.add("a/b", "1");
  // What a function throws comes back as it is, and the tree stays.
  const thrown = new Error("mine");
  assert.throws(() => prove(tree, () => { throw thrown; }), (error) => error === thrown);
  assert.throws(() => tree.fold([], () => { throw thrown; }), (error) => error === thrown);
  assert.throws(() => prove(tree, (it) => it.free()), kindOf("invalid"));
  // Memory and stack that are not there.
  assert.throws(() => prove(tree, () => new Uint8Array(2 ** 53)), RangeError);
  const deep = () => deep() + 1;
  assert.throws(() => tree.fold([], deep), RangeError);
  // What another thread would get of a handle is none.
  const sent = structuredClone(tree);
  assert.throws(() => sent.find("a/b"), TypeError);
  assert.throws(() => store.commit(sent), /instance of Tree/);
  assert.equal(text(tree.find("a/b")), "1");
  assert.throws(() => Proof.decode(new Uint8Array(40).fill(255)), (error) => error.name === "VarviteError");
  assert.equal(new Tree("tezos-binary").isEmpty, true);
});

test("a date is a number or a bigint, and nothing else is taken for one", () => {
  const store = Store.create(Disk.memory(1));
  const tree = store.emptyTree();
  tree.add("a", "1");
  const dates = [0, 1_700_000_000, -5, 2 ** 53];
  for (const date of dates) {
    const commit = store.commit(tree, { date });
    assert.deepEqual(store.commit(tree, { date: BigInt(date) }), commit);
    assert.equal(store.commitInfo(commit).date, date);
  }
  const far = 2n ** 63n - 1n;
  assert.equal(store.commitInfo(store.commit(tree, { date: far })).date, far);
  for (const date of ["1700000000", new Date(), 0.5, NaN, Infinity, 2 ** 60, far + 1n, {}, true]) {
    assert.throws(() => store.commit(tree, { date }), kindOf("invalid"), `${date}`);
  }
  assert.throws(() => Store.create(Disk.memory(), { synced: 0 }), kindOf("invalid"));
  store.close();
  const session = Session.create(Disk.memory());
  const table = session.createTable("t", {});
  assert.throws(() => session.saveSnapshot("s", [table], { label: 7 }), kindOf("invalid"));
  const tables = session.share([table]);
  assert.throws(() => tables.saveSnapshot("s", { label: 7 }), kindOf("invalid"));
  assert.deepEqual(session.listSnapshots(), []);
  session.close();
});

test("a branch has a name of bytes, which need be no text", () => {
  const store = Store.create(Disk.memory(1));
  const tree = store.emptyTree();
  tree.add("a", "1");
  const commit = store.commit(tree);
  const name = new Uint8Array([255, 0, 109]);
  store.setBranch(name, commit);
  store.setBranch("main", commit);
  assert.deepEqual(store.branch(name), commit);
  assert.deepEqual(store.branches().map(([it]) => [...it]), [[..."main"].map((it) => it.charCodeAt(0)), [255, 0, 109]]);
  store.removeBranch(name);
  assert.equal(store.branch(name), undefined);
  assert.deepEqual(store.branch("main"), commit);
  for (const wrong of [undefined, 7, ""]) assert.throws(() => store.setBranch(wrong, commit), kindOf("invalid"));
  store.close();
});

test("what throws where an array is read leaves nothing open", () => {
  const session = Session.create(Disk.memory(), {});
  const tables = session.share([session.createTable("t", {})]);
  const thrown = new Error("mine");
  const batch = new Batch();
  batch.insert("a", "1");
  const getter = () => Object.defineProperty(["t", batch], 0, { get() { throw thrown; } });
  const proxy = () => new Proxy([["t", batch]], { get(target, name) { if (name === "length") throw thrown; return target[name]; } });
  for (const pairs of [[getter()], proxy()]) {
    assert.throws(() => tables.commit(pairs), (error) => error === thrown);
    const block = tables.begin();
    block.rollback();
  }
  const store = Store.create(Disk.memory());
  const tree = store.emptyTree();
  tree.add("a", "1");
  for (const act of [
    () => store.commit(tree, { get date() { throw thrown; } }),
    () => tables.lookup("t", Object.defineProperty(["a"], 0, { get() { throw thrown; } })),
    () => session.update([getter()]),
  ]) assert.throws(act, (error) => error === thrown);
  assert.throws(() => tables.commit([[7, batch]]), kindOf("invalid"));
  tables.commit([["t", batch]]);
  assert.equal(text(tables.get("t", "a")), "1");
  tables.close();
  session.close();
});

test("what entries passed before an error is given", () => {
  const thrown = new Error("mine");
  const join = (older, newer) => { if (text(newer) === "bad") throw thrown; return newer; };
  const session = Session.create(Disk.memory(1), {});
  const table = session.createTable("t", { writeBufferBytes: 1024, operator: { name: "picky", join } });
  const apply = (act) => { const batch = new Batch(); act(batch); table.update(batch); };
  for (let number = 100; number < 200; number++) apply((batch) => batch.insert(`${number}`, "old"));
  apply((batch) => batch.upsert("103", "bad"));
  for (const again of [(it) => it.nextMany(10), (it) => it.next()]) {
    const entries = table.range();
    assert.deepEqual(entries.nextMany(10).map(([key]) => text(key)), ["100", "101", "102"]);
    assert.throws(() => again(entries), (error) => error === thrown);
  }
  session.close();
});

test("a number that does not fit is refused, and is not cut", () => {
  const store = Store.create(Disk.memory(1));
  const tree = store.emptyTree();
  tree.add("a", "1");
  const commit = store.commit(tree);
  assert.deepEqual(store.log(), [commit]);
  assert.deepEqual(store.log(2 ** 32), [commit]);
  assert.deepEqual(store.log(0), []);
  for (const limit of [-1, NaN, 0.5, "1"]) assert.throws(() => store.log(limit), kindOf("invalid"), `${limit}`);
  store.close();
  const session = Session.create(Disk.memory());
  const table = session.createTable("t", {});
  const batch = new Batch();
  batch.insert("a", "1");
  table.update(batch);
  const entries = table.range();
  for (const count of [-1, NaN, undefined]) assert.throws(() => entries.nextMany(count), kindOf("invalid"), `${count}`);
  assert.equal(entries.nextMany(2 ** 32).length, 1);
  const rows = new Uint8Array(8);
  for (const width of [2 ** 32 + 8, -8, undefined, 0]) {
    assert.throws(() => batch.insertRows(rows, width, rows, 8), kindOf("invalid"), `${width}`);
    assert.throws(() => batch.deleteRows(rows, width), kindOf("invalid"), `${width}`);
    assert.throws(() => table.lookupRows(rows, width), kindOf("invalid"), `${width}`);
  }
  session.close();
});

test("only a list of steps has steps without bytes", () => {
  const tree = new Tree();
  tree.add("/a//b/", "1");
  assert.equal(text(tree.find("a/b")), "1");
  assert.equal(tree.length("/"), 1);
  tree.add(["", "a"], "2");
  assert.equal(tree.length(), 2);
  assert.equal(text(tree.find(["", "a"])), "2");
});

test("proofs of Octez verify, and mutations of them never stop the program", (context) => {
  const folder = new URL("../../../../shared/data/octez-proofs", import.meta.url).pathname;
  const data = process.env.VARVITE_DATA ? `${process.env.VARVITE_DATA}/octez-proofs` : folder;
  let lines;
  try {
    lines = gunzipSync(readFileSync(`${data}/tezos.jsonl.gz`)).toString().trim().split("\n").slice(0, 40);
  } catch {
    context.skip("the proofs of Octez are not there");
    return;
  }
  for (const line of lines) {
    const found = JSON.parse(line);
    const encoded = Object.values(found).filter((it) => typeof it === "string" && /^[0-9a-f]{40,}$/.test(it));
    for (const digits of encoded) {
      const bytes = new Uint8Array(Buffer.from(digits, "hex"));
      for (let round = 0; round < 8; round++) {
        const changed = bytes.slice();
        if (round > 0) changed[(round * 7919) % changed.length] ^= 1 << round % 8;
        try {
          CheckedProof.decode(changed).check();
        } catch (error) {
          assert.equal(error.name, "VarviteError");
        }
      }
    }
  }
});
