// What the browser's tests run in a worker: each message is a task, its answer a message.
import { Batch, Session, Store, keepPromise, promiseNames } from "varvite";
import { OpfsDisk } from "varvite/opfs";

const text = new TextDecoder();
let counter = 0;

const tasks = {
  /** The promises of every disk, each on a disk of its own. */
  async promises() {
    const kept = [];
    for (const name of promiseNames()) {
      const disk = await OpfsDisk.open(`promise ${name}`, { files: 12 });
      keepPromise(name, disk.disk);
      disk.close();
      await OpfsDisk.remove(`promise ${name}`);
      kept.push(name);
    }
    return kept;
  },

  /** Writes to a table and a context for ever, and tells what was acknowledged. */
  async write() {
    const [tables, trees] = [await OpfsDisk.open("tables"), await OpfsDisk.open("trees")];
    const session = Session.openOrCreate(tables.disk, { log: "synced", logFileBytes: 1 << 20 });
    const table = session.openOrCreateTable("t", { writeBufferBytes: 8192 });
    const store = Store.openOrCreate(trees.disk);
    const last = store.branch("main");
    const tree = last ? store.checkout(last) : store.emptyTree();
    for (let block = counter; ; block++) {
      const batch = new Batch();
      for (let row = 0; row < 20; row++) {
        batch.insert(`${(block * 20 + row) % 500}`, `${block}`);
        tree.add(["a", `${(block * 20 + row) % 500}`], `${block}`);
      }
      table.update(batch);
      const commit = store.commit(tree, { date: block });
      store.setBranch("main", commit);
      await Promise.all([tables.ready(), trees.ready()]);
      postMessage({ acknowledged: block, commit });
    }
  },

  /** What both have now: for each key the block that wrote it last. */
  async read() {
    const [tables, trees] = [await OpfsDisk.open("tables"), await OpfsDisk.open("trees")];
    const session = Session.openOrCreate(tables.disk, { log: "synced", logFileBytes: 1 << 20 });
    const rows = session.liveTables().includes("t") ? [...session.openTable("t").range()] : [];
    session.close();
    const store = Store.openOrCreate(trees.disk);
    // Not the last record: a worker that ran on before it was ended has made some commits that are made again behind it.
    const head = store.branch("main");
    const tree = head && store.checkout(head);
    const values = tree ? tree.list("a").map((it) => [text.decode(it.name), Number(text.decode(it.tree.value))]) : [];
    store.close();
    tables.close();
    trees.close();
    return { rows: rows.map(([key, value]) => [text.decode(key), Number(text.decode(value))]), values, head };
  },

  /** Reserves files several times at once. */
  async together() {
    const disk = await OpfsDisk.open("together", { files: 4 });
    await Promise.all([disk.ready(20), disk.ready(20), disk.ready(30)]);
    const free = disk.disk.freeFiles;
    disk.close();
    return free;
  },

  /** Closes a disk that waits for files: what the wait says, and whether the disk can be opened again. */
  async closing() {
    const disk = await OpfsDisk.open("closing", { files: 4 });
    const wait = disk.ready(64).then(() => "ready", (error) => error.kind);
    disk.close();
    const said = await wait;
    try {
      (await OpfsDisk.open("closing", { files: 4 })).close();
      return [said, "opened"];
    } catch (error) {
      return [said, error.kind];
    }
  },

  /** Opens a disk twice. */
  async twice() {
    const one = await OpfsDisk.open("twice", { files: 4 });
    try {
      await OpfsDisk.open("twice", { files: 4 });
      return "opened";
    } catch (error) {
      return error.kind;
    } finally {
      one.close();
    }
  },
};

onmessage = async ({ data }) => {
  try {
    counter = data.from ?? 0;
    postMessage({ answer: await tasks[data.task]() });
  } catch (error) {
    postMessage({ thrown: `${error?.stack ?? error}` });
  }
};
postMessage({ begun: true });
