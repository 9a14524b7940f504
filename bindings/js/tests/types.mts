// What a program in TypeScript writes: it compiles, and what is wrong does not.
import { Batch, Disk, Proof, Session, Store, type VarviteError } from "varvite";
import { Proof as CheckedProof } from "varvite/checker";
import { OpfsDisk } from "varvite/opfs";

const session = Session.openOrCreate(Disk.memory(), { log: "synced" });
const table = session.openOrCreateTable("coins", { operator: "add-u64" });
const longest = { name: "longest", join: (older: Uint8Array, newer: Uint8Array) => (newer.length > older.length ? newer : older) };
session.openTable("others", { operators: [longest] });
session.createTable("more", { operator: longest });
// @ts-expect-error an operator has a name
session.createTable("wrong", { operator: { join: longest.join } });
const batch = new Batch();
batch.insert("key", new Uint8Array(8));
table.update(batch);
const found: Uint8Array | undefined = table.get("key");
// @ts-expect-error there is no such log
Session.create(Disk.memory(), { log: "always" });
// @ts-expect-error a number is no key
table.get(7);

const store: Store = Store.openOrCreate(Disk.memory(), { index: "always" });
const tree = store.emptyTree();
tree.add("a/b", found ?? "nothing");
const commit: Uint8Array = store.commit(tree, { parents: [], date: 1, message: "level 1" });
store.setBranch("main", commit);
store.setBranch(new Uint8Array([255]), store.commit(tree, { date: 1n }));
const newest: Uint8Array[] = store.log(1);
const answer: string = CheckedProof.decode("").verify(commit, (it) => it.kind);
const proof: Proof = Proof.decode(new Uint8Array(), "v2");
try {
  proof.check();
} catch (error) {
  const kind: "hidden" | string = (error as VarviteError).kind;
  console.log(kind, answer, newest);
}

export async function opened(): Promise<number> {
  const disk: OpfsDisk = await OpfsDisk.open("ledger", { files: 32 });
  await disk.ready();
  return disk.disk.freeFiles;
}
