// Disks over pools: what every disk promises, what a power cut leaves, failing calls.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { Batch, Disk, Session, Store, keepPromise, promiseNames } from "varvite";
import { FilePool, MemoryPool } from "./pool-files.mjs";

/** Numbers that look random, the same for a seed. */
function random(seed) {
  let state = BigInt(seed) * 0x9e3779b97f4a7c15n;
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    return Number(state >> 40n) / 2 ** 24;
  };
}

test("a disk over a pool keeps what every disk promises", () => {
  const folder = mkdtempSync(`${tmpdir()}/varvite-js-`);
  const names = promiseNames();
  assert.ok(names.length > 20);
  names.forEach((name, number) => {
    const pool = new FilePool(`${folder}/${number}`, 16);
    const disk = Disk.over(pool, "pool");
    keepPromise(name, disk);
    disk.release();
    pool.close();
  });
  rmSync(folder, { recursive: true });
});

/** Batches with a synced log until the pool fails; how many were acknowledged. */
function fill(pool, batches, begun) {
  let done = begun;
  const session = Session.openOrCreate(Disk.over(pool, "pool"), { log: "synced", logFileBytes: 1 << 20 });
  const table = session.openOrCreateTable("t", { writeBufferBytes: 4096 });
  for (; done < batches; done++) {
    const batch = new Batch();
    for (let row = 0; row < 8; row++) batch.insert(`key ${(done * 8 + row) % 200}`, `value ${done}`);
    table.update(batch);
  }
  table.close();
  session.close();
  return done;
}

/** What the table holds after so many batches. */
function expected(batches) {
  const rows = new Map();
  for (let done = 0; done < batches; done++) {
    for (let row = 0; row < 8; row++) rows.set(`key ${(done * 8 + row) % 200}`, `value ${done}`);
  }
  return rows;
}

function content(pool) {
  const session = Session.openOrCreate(Disk.over(pool, "pool"), { log: "synced", logFileBytes: 1 << 20 });
  const names = session.liveTables();
  const rows = new Map();
  if (names.includes("t")) {
    const table = session.openTable("t");
    for (const [key, value] of table.range()) rows.set(new TextDecoder().decode(key), new TextDecoder().decode(value));
    table.close();
  }
  session.close();
  return rows;
}

test("after a power cut a synced table has its acknowledged batches, and at most one more", () => {
  const whole = new MemoryPool();
  fill(whole, 40, 0);
  const calls = whole.calls;
  assert.ok(calls > 100);
  for (let failAt = 1; failAt <= calls; failAt += 3) {
    const pool = new MemoryPool();
    pool.failAt = failAt;
    let acknowledged = 0;
    try {
      const session = Session.openOrCreate(Disk.over(pool, "pool"), { log: "synced", logFileBytes: 1 << 20 });
      const table = session.openOrCreateTable("t", { writeBufferBytes: 4096 });
      for (; acknowledged < 40; acknowledged++) {
        const batch = new Batch();
        for (let row = 0; row < 8; row++) batch.insert(`key ${(acknowledged * 8 + row) % 200}`, `value ${acknowledged}`);
        table.update(batch);
      }
      table.close();
      session.close();
    } catch (error) {
      assert.ok(["io", "poisoned"].includes(error.kind), `${failAt}: ${error}`);
    }
    for (let seed = 1; seed <= 3; seed++) {
      const found = content(pool.crashed(random(failAt * 8 + seed)));
      const matches = [expected(acknowledged), expected(acknowledged + 1)].some(
        (rows) => rows.size === found.size && [...rows].every(([key, value]) => found.get(key) === value),
      );
      assert.ok(matches, `failing at call ${failAt}, image ${seed}: ${found.size} rows after ${acknowledged} batches`);
    }
  }
});

test("after a power cut a context has its acknowledged commits", () => {
  const commits = (pool, each) => {
    const store = Store.openOrCreate(Disk.over(pool, "pool"));
    const tree = store.emptyTree();
    for (let block = 0; block < 12; block++) {
      for (let row = 0; row < 20; row++) tree.add(["a", `name ${(block * 7 + row) % 50}`], `value ${block} ${row}`);
      each(store.commit(tree, { date: block, message: `level ${block}` }));
    }
    store.close();
  };
  const whole = new MemoryPool();
  commits(whole, () => {});
  for (let failAt = 1; failAt <= whole.calls; failAt += 2) {
    const pool = new MemoryPool();
    pool.failAt = failAt;
    const acknowledged = [];
    try {
      commits(pool, (hash) => acknowledged.push(hash));
    } catch (error) {
      assert.ok(["io", "poisoned"].includes(error.kind), `${failAt}: ${error}`);
    }
    const after = pool.crashed(random(failAt));
    const store = Store.openOrCreate(Disk.over(after, "pool"));
    acknowledged.forEach((hash, block) => {
      const tree = store.checkout(hash);
      assert.equal(new TextDecoder().decode(tree.find(["a", `name ${(block * 7) % 50}`])), `value ${block} 0`);
    });
    store.close();
  }
});

/** What a crash of the process leaves: all that was written. */
const kept = (pool) => pool.crashed(() => 0);

test("a crash while a torn directory is mended leaves the whole one", () => {
  for (const copy of [0, 1]) {
    const whole = new MemoryPool();
    fill(whole, 3, 0);
    const torn = kept(whole);
    torn.now[copy].fill(0xff, 40);
    torn.tears = (file) => file < 2;
    assert.throws(() => Disk.over(torn, "pool"), (error) => error.kind === "io");
    assert.deepEqual(content(kept(torn)), expected(3), `copy ${copy}`);
    // Mended, both are whole.
    const mended = kept(torn);
    Disk.over(mended, "pool");
    assert.deepEqual(mended.now[0], mended.now[1]);
    assert.deepEqual(mended.durable[0], mended.durable[1]);
  }
});

test("a directory that could not be written is written before the whole one", () => {
  for (const copy of [0, 1]) {
    const pool = new MemoryPool();
    fill(pool, 3, 0);
    const disk = Disk.over(pool, "pool");
    const named = (name) => {
      const session = Session.openOrCreate(disk, { log: "synced", logFileBytes: 1 << 20 });
      try {
        session.createTable(name).close();
      } finally {
        session.close();
      }
    };
    let full = true;
    pool.tears = (file) => file === copy && full;
    assert.throws(() => named("u"), (error) => ["io", "poisoned"].includes(error.kind));
    // There is room again, and the power goes in the middle of the next write.
    full = false;
    pool.tears = (file) => file < 2;
    assert.throws(() => named("v"), (error) => ["io", "poisoned"].includes(error.kind));
    assert.deepEqual(content(kept(pool)), expected(3), `copy ${copy}`);
  }
});

test("what is behind a directory is no difference", () => {
  const pool = new MemoryPool();
  fill(pool, 3, 0);
  const longer = kept(pool);
  longer.now[0] = new Uint8Array([...longer.now[0], 1, 2, 3]);
  const written = [];
  longer.tears = (file) => {
    written.push(file);
    return false;
  };
  Disk.over(longer, "pool");
  assert.deepEqual(written, []);
  assert.deepEqual(content(kept(longer)), expected(3));
});

test("a pool without a free file is full, and goes on when it has more", () => {
  const pool = new MemoryPool(4);
  const disk = Disk.over(pool, "pool");
  let session;
  assert.throws(() => {
    session = Session.openOrCreate(disk, { log: "synced" });
    for (let number = 0; number < 10; number++) session.createTable(`t${number}`).update(new Batch());
  }, (error) => error.kind === "io" && /reserve more/.test(error.message));
});

test("one damaged copy of a directory changes nothing, two are damage, a newer version is told", () => {
  const pool = new MemoryPool();
  fill(pool, 3, 0);
  const damaged = (files, at, byte) => {
    const copy = pool.crashed(() => 0);
    for (const file of files) copy.now[file][at] = byte ?? copy.now[file][at] ^ 1;
    return copy;
  };
  for (const file of [0, 1]) {
    for (const at of [3, 12, 20, 30, 60]) assert.deepEqual(content(damaged([file], at)), expected(3));
  }
  assert.throws(() => Disk.over(damaged([0, 1], 30), "pool"), (error) => error.kind === "corrupt");
  assert.throws(() => Disk.over(damaged([0, 1], 8, 9), "pool"), (error) => error.kind === "version");
});

test("a pool that was released says so", () => {
  const disk = Disk.over(new MemoryPool(), "pool");
  const session = Session.openOrCreate(disk, { log: "synced" });
  const table = session.createTable("t");
  disk.release();
  assert.throws(() => table.update(batchOf("a", "b")), (error) => ["closed", "poisoned"].includes(error.kind));
});

function batchOf(key, value) {
  const batch = new Batch();
  batch.insert(key, value);
  return batch;
}
