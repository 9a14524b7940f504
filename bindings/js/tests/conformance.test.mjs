// The operations that every face replays: the same answers, and in the end the same bytes in the same files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Batch, Disk, Proof, Session, Store, prove } from "varvite";

const unhex = (text) => (text === null ? null : new Uint8Array(Buffer.from(text, "hex")));
const hex = (bytes) => (bytes === undefined ? null : Buffer.from(bytes).toString("hex"));

const TABLE = Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});
function crc32(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

class Replay {
  disk = Disk.memory(1);
  tables = {};
  trees = {};

  files() {
    return this.disk.files().filter((path) => path.split("/").at(-1) !== "lock").map((path) => {
      const bytes = this.disk.readFile(path);
      return [path, bytes.length, crc32(bytes)];
    });
  }

  create_session(it) { this.session = Session.create(this.disk, { seed: it.seed, log: it.log }); }
  open_session(it) { this.session = Session.open(this.disk, { seed: it.seed, log: it.log }); }
  open_table(it) { this.tables[it.table] = this.session.openTable(it.table); }
  live_tables() { return { found: this.session.liveTables().map((name) => hex(new TextEncoder().encode(name))) }; }
  refused(it) { assert.throws(() => this[it.call.do](it.call), (error) => error.kind === it.kind, JSON.stringify(it)); }

  // This face has ranges and no cursors: the same steps over what a range gives.
  cursor(it) {
    const table = this.tables[it.table];
    const before = [...table.range({ before: unhex(it.key) })];
    const entries = [...before, ...table.range({ from: unhex(it.key) })];
    let place = before.length;
    const none = [undefined, undefined];
    const step = (kind) => (kind === "n" ? entries[place] && entries[place++] : place > 0 && entries[--place]) || none;
    return { found: [...it.steps].flatMap(step).map(hex) };
  }

  create_table(it) {
    this.tables[it.table] = this.session.createTable(it.table, {
      writeBufferBytes: it.write_buffer_bytes,
      sizeRatio: it.size_ratio,
      blobMinBytes: it.blob_min_bytes,
      operator: it.operator ?? undefined,
    });
  }

  batch(operations) {
    const batch = new Batch();
    for (const [kind, ...rest] of operations) {
      const [first, second] = rest.map(unhex);
      if (kind === "insert") batch.insert(first, second);
      else if (kind === "upsert") batch.upsert(first, second);
      else if (kind === "delete") batch.delete(first);
      else if (kind === "delete_range") batch.deleteRange({ from: first, before: second });
      else if (kind === "delete_prefix") batch.deletePrefix(first);
      else assert.fail(kind);
    }
    return batch;
  }

  update(it) { this.tables[it.table].update(this.batch(it.operations)); }

  share(it) {
    this.shared = this.session.share(it.tables.map((name) => this.tables[name]));
    for (const name of it.tables) delete this.tables[name];
  }

  transaction(it) {
    const transaction = this.shared.begin();
    for (const [kind, table, given, found] of it.steps) {
      if (kind === "update") transaction.update(table, this.batch(given));
      else assert.deepEqual(transaction.lookup(table, given.map(unhex)).map(hex), found);
    }
    transaction[it.ends]();
  }

  shared_lookup(it) { return { found: this.shared.lookup(it.table, it.keys.map(unhex)).map(hex) }; }
  save_shared(it) { this.shared.saveSnapshot(it.snapshot, { label: it.label, payload: unhex(it.payload) }); }

  lookup(it) { return { found: this.tables[it.table].lookup(it.keys.map(unhex)).map(hex) }; }
  entries(it, range) { return { found: [...this.tables[it.table].range(range)].flat().map(hex) }; }
  range(it) { return this.entries(it, { from: unhex(it.from), before: unhex(it.before) }); }
  prefix(it) { return this.entries(it, { prefix: unhex(it.prefix) }); }
  keys_back(it) { return this.entries(it, { prefix: unhex(it.prefix), reverse: true, keysOnly: true }); }
  delete_range(it) { this.tables[it.table].deleteRange({ from: unhex(it.from), before: unhex(it.before) }); }
  union(it) { this.tables[it.table] = this.session.union(it.table, it.of.map((name) => this.tables[name])); }

  save_snapshot(it) {
    const tables = it.tables.map((name) => this.tables[name]);
    this.session.saveSnapshot(it.snapshot, tables, { label: it.label, payload: unhex(it.payload) });
  }

  open_snapshot(it) { this.tables[it.take] = this.session.openSnapshot(it.snapshot, it.take); }

  close_session() {
    this.shared?.close();
    this.shared = undefined;
    for (const table of Object.values(this.tables)) table.close();
    this.tables = {};
    this.session.close();
    return { files: this.files() };
  }

  create_store(it) {
    this.shape = it.configuration;
    this.store = Store.create(this.disk, { seed: it.seed, chunkBytes: it.chunk_bytes, configuration: it.configuration });
  }

  open_store(it) { this.store = Store.open(this.disk, { seed: it.seed }); }
  branch(it) { return { found: hex(this.store.branch(unhex(it.branch))) }; }
  // There are no differences of trees in this face.
  diff() {}
  pin(it) { this.store.pin(it.commit); }
  unpin(it) { return { was: this.store.unpin(it.commit) }; }
  pin_every(it) { return { added: this.store.pinEvery(it.nth) }; }
  pins() { return { found: this.store.pins().map(hex) }; }
  collect(it) { this.store.collect(it.commit); }
  collect_keep(it) { return { began: this.store.collectKeeping(it.newest) }; }
  collect_to_the_end(it) { while (this.store.collectStep(it.credits)); }
  is_collected(it) { assert.throws(() => this.store.checkout(it.commit), (error) => error.kind === "collected"); }
  empty_tree(it) { this.trees[it.tree] = this.store.emptyTree(); }
  checkout(it) { this.trees[it.tree] = this.store.checkout(it.commit); }
  add(it) { this.trees[it.tree].add(it.path.map(unhex), unhex(it.value)); }
  remove(it) { this.trees[it.tree].remove(it.path.map(unhex)); }
  find(it) { return { found: hex(this.trees[it.tree].find(it.path.map(unhex))) }; }

  list(it) {
    const children = this.trees[it.tree].list(it.path.map(unhex));
    return { found: children.flatMap((child) => [hex(child.name), child.kind]) };
  }

  fold(it) {
    const found = [];
    this.trees[it.tree].fold(it.path.map(unhex), (path, tree) => { found.push([tree.kind, ...path.map(hex)]); });
    return { found };
  }

  page(it) {
    const tree = this.trees[it.tree];
    const found = tree.list([], it.offset, it.length).flatMap((child) => [hex(child.name), child.kind]);
    return { found, count: Number(tree.length([])) };
  }

  hash(it) { return { hash: hex(this.trees[it.tree].hash()) }; }

  commit(it) {
    const info = { parents: it.parents, date: it.date, author: unhex(it.author), message: unhex(it.message) };
    return { hash: hex(this.store.commit(this.trees[it.tree], info)) };
  }

  set_branch(it) { this.store.setBranch(unhex(it.branch), it.commit); }

  prove_finds(it) {
    const work = (tree) => it.paths.map((path) => hex(tree.find(path.map(unhex))));
    const { proof, answer } = prove(this.trees[it.tree], work, it.stream);
    const encoded = proof.encode(it.encoding);
    const read = Proof.decode(encoded, it.encoding, this.shape);
    assert.deepEqual(read.verify(this.trees[it.tree].hash(), work, this.shape), answer);
    return { proof: hex(encoded) };
  }

  close_store() {
    for (const tree of Object.values(this.trees)) tree.free();
    this.trees = {};
    this.store.close();
    return { files: this.files() };
  }
}

for (const name of ["table", "context", "collect", "binary", "logged", "walked"]) {
  test(`the conformance file of the ${name} gives its answers and bytes`, () => {
    const folder = process.env.VARVITE_CONFORMANCE ?? new URL("../../conformance", import.meta.url).pathname;
    const lines = readFileSync(`${folder}/${name}.jsonl`, "utf8").trim().split("\n");
    const replay = new Replay();
    lines.forEach((line, number) => {
      const it = JSON.parse(line);
      try {
        assert.ok(replay[it.do], `nobody knows how to do ${it.do}`);
        const answer = replay[it.do](it) ?? {};
        for (const [key, value] of Object.entries(answer)) assert.deepEqual(value, it[key]);
      } catch (error) {
        throw new Error(`line ${number + 1} of ${name}.jsonl, ${it.do}: ${error.message}`, { cause: error });
      }
    });
    assert.ok(lines.length > 50);
  });
}
