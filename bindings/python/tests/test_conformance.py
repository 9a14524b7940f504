"""The operations that every face replays: the same answers, and in the end the same bytes in the same files."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
import varvite

FILES = Path(os.environ.get("VARVITE_CONFORMANCE", Path(__file__).parents[2] / "conformance"))

SHAPES = {"tezos": varvite.Configuration.TEZOS, "tezos-binary": varvite.Configuration.TEZOS_BINARY}


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def some(text: str) -> bytes:
    return bytes.fromhex(text)


def hexed(found: bytes | None) -> str | None:
    return None if found is None else found.hex()


def files(folder: Path) -> list[list[Any]]:
    found = []
    for path in sorted(it for it in folder.rglob("*") if it.is_file() and it.name != "lock"):
        data = path.read_bytes()
        found.append([path.relative_to(folder).as_posix(), len(data), zlib.crc32(data)])
    return sorted(found)


class Replay:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session: varvite.Session
        self.store: varvite.Store
        self.shared: varvite.Tables | None = None
        self.tables: dict[str, varvite.Table] = {}
        self.trees: dict[str, varvite.Tree] = {}

    def step(self, it: dict[str, Any]) -> dict[str, Any]:
        answer = getattr(self, it["do"])(it)
        return answer if isinstance(answer, dict) else {}

    def create_session(self, it: dict[str, Any]) -> None:
        self.session = varvite.Session.create(self.folder, seed=it["seed"], log=it.get("log"))

    def open_session(self, it: dict[str, Any]) -> None:
        self.session = varvite.Session.open(self.folder, seed=it["seed"], log=it.get("log"))

    def open_table(self, it: dict[str, Any]) -> None:
        self.tables[it["table"]] = self.session.open_table(it["table"])

    def live_tables(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"found": [name.encode().hex() for name in self.session.live_tables()]}

    def refused(self, it: dict[str, Any]) -> None:
        with pytest.raises(varvite.Error) as raised:
            self.step(it["call"])
        assert raised.value.kind == it["kind"], it

    def cursor(self, it: dict[str, Any]) -> dict[str, Any]:
        found: list[str | None] = []
        with self.tables[it["table"]].cursor() as cursor:
            cursor.seek(some(it["key"]))
            for step in it["steps"]:
                entry = cursor.next() if step == "n" else cursor.previous()
                found += [part.hex() for part in entry] if entry else [None, None]
        return {"found": found}

    def create_table(self, it: dict[str, Any]) -> None:
        operator = it["operator"] and varvite.MergeOperator.built_in(it["operator"])
        options = {key: it[key] for key in ("write_buffer_bytes", "size_ratio", "blob_min_bytes")}
        self.tables[it["table"]] = self.session.create_table(it["table"], operator=operator, **options)

    def batch(self, operations: list[Any]) -> varvite.Batch:
        batch = varvite.Batch()
        for operation, key, *value in operations:
            getattr(batch, operation)(some(key), *map(some, value))
        return batch

    def update(self, it: dict[str, Any]) -> None:
        self.tables[it["table"]].update(self.batch(it["operations"]))

    def share(self, it: dict[str, Any]) -> None:
        self.shared = self.session.share([self.tables.pop(name) for name in it["tables"]])

    def transaction(self, it: dict[str, Any]) -> None:
        assert self.shared is not None
        transaction = self.shared.begin()
        for kind, table, given, *found in it["steps"]:
            if kind == "update":
                transaction.update(table, self.batch(given))
            else:
                answer = transaction.lookup(table, [some(key) for key in given])
                assert [hexed(value) for value in answer] == found[0]
        getattr(transaction, it["ends"])()

    def shared_lookup(self, it: dict[str, Any]) -> dict[str, Any]:
        assert self.shared is not None
        found = self.shared.lookup(it["table"], [some(key) for key in it["keys"]])
        return {"found": [hexed(value) for value in found]}

    def save_shared(self, it: dict[str, Any]) -> None:
        assert self.shared is not None
        self.shared.save_snapshot(it["snapshot"], label=it["label"], payload=some(it["payload"]))

    def lookup(self, it: dict[str, Any]) -> dict[str, Any]:
        found = self.tables[it["table"]].lookup([some(key) for key in it["keys"]])
        return {"found": [hexed(value) for value in found]}

    def range(self, it: dict[str, Any]) -> dict[str, Any]:
        bounds = [unhex(it["from"]), unhex(it["before"])]
        table = self.tables[it["table"]]
        found = [part.hex() for entry in table.range(*bounds) for part in entry]
        assert found == [part.hex() for entry in table.items(*bounds) for part in entry]
        return {"found": found}

    def delete_range(self, it: dict[str, Any]) -> None:
        self.tables[it["table"]].delete_range(some(it["from"]), some(it["before"]))

    def prefix(self, it: dict[str, Any]) -> dict[str, Any]:
        items = self.tables[it["table"]].items(prefix=some(it["prefix"]))
        return {"found": [part.hex() for entry in items for part in entry]}

    def keys_back(self, it: dict[str, Any]) -> dict[str, Any]:
        keys = self.tables[it["table"]].keys(prefix=some(it["prefix"]))
        return {"found": [key.hex() for key in reversed(keys)]}

    def union(self, it: dict[str, Any]) -> None:
        self.tables[it["table"]] = self.session.union(it["table"], [self.tables[name] for name in it["of"]])

    def save_snapshot(self, it: dict[str, Any]) -> None:
        tables = [self.tables[name] for name in it["tables"]]
        payload = it["payload"]
        self.session.save_snapshot(it["snapshot"], tables, label=it["label"], payload=some(payload))

    def open_snapshot(self, it: dict[str, Any]) -> None:
        with self.session.open_snapshot(it["snapshot"]) as snapshot:
            self.tables[it["take"]] = snapshot.take(it["take"])

    def close_session(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.shared is not None:
            self.shared.close()
        for table in self.tables.values():
            table.close()
        self.tables = {}
        self.session.close()
        return {"files": files(self.folder)}

    def create_store(self, it: dict[str, Any]) -> None:
        self.configuration = SHAPES[it.get("configuration", "tezos")]
        self.store = varvite.Store.create(
            self.folder, seed=it["seed"], chunk_bytes=it.get("chunk_bytes"), configuration=self.configuration
        )

    def open_store(self, it: dict[str, Any]) -> None:
        self.store = varvite.Store.open(self.folder, seed=it["seed"])

    def branch(self, it: dict[str, Any]) -> dict[str, Any]:
        return {"found": hexed(self.store.branch(some(it["branch"])))}

    def pin(self, it: dict[str, Any]) -> None:
        self.store.pin(it["commit"])

    def unpin(self, it: dict[str, Any]) -> dict[str, Any]:
        return {"was": self.store.unpin(it["commit"])}

    def pin_every(self, it: dict[str, Any]) -> dict[str, Any]:
        return {"added": self.store.pin_every(it["nth"])}

    def pins(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"found": [commit.hex() for commit in self.store.pins()]}

    def collect(self, it: dict[str, Any]) -> None:
        self.store.collect(it["commit"])

    def collect_keep(self, it: dict[str, Any]) -> dict[str, Any]:
        return {"began": self.store.collect_keeping(newest=it["newest"])}

    def collect_to_the_end(self, it: dict[str, Any]) -> None:
        while self.store.collect_step(it["credits"]):
            pass

    def is_collected(self, it: dict[str, Any]) -> None:
        with pytest.raises(varvite.CollectedError):
            self.store.checkout(it["commit"])

    def empty_tree(self, it: dict[str, Any]) -> None:
        self.trees[it["tree"]] = self.store.empty_tree()

    def checkout(self, it: dict[str, Any]) -> None:
        self.trees[it["tree"]] = self.store.checkout(it["commit"])

    def add(self, it: dict[str, Any]) -> None:
        self.trees[it["tree"]].add([some(step) for step in it["path"]], some(it["value"]))

    def remove(self, it: dict[str, Any]) -> None:
        self.trees[it["tree"]].remove([some(step) for step in it["path"]])

    def find(self, it: dict[str, Any]) -> dict[str, Any]:
        found = self.trees[it["tree"]].find([some(step) for step in it["path"]])
        return {"found": hexed(found)}

    def list(self, it: dict[str, Any]) -> dict[str, Any]:
        found = self.trees[it["tree"]].list([some(step) for step in it["path"]])
        return {"found": [part for name, child in found for part in (name.hex(), child.kind)]}

    def fold(self, it: dict[str, Any]) -> dict[str, Any]:
        found: list[Any] = []

        def each(path: Any, tree: varvite.Tree) -> None:
            found.append([tree.kind, *(step.hex() for step in path)])

        self.trees[it["tree"]].fold(each, [some(step) for step in it["path"]])
        return {"found": found}

    def page(self, it: dict[str, Any]) -> dict[str, Any]:
        tree = self.trees[it["tree"]]
        listed = tree.list(offset=it["offset"], length=it["length"])
        found = [part for name, child in listed for part in (name.hex(), child.kind)]
        return {"found": found, "count": tree.length()}

    def diff(self, it: dict[str, Any]) -> dict[str, Any]:
        changes = self.trees[it["tree"]].diff(self.trees[it["after"]])
        return {"found": [[hexed(old), hexed(new), *(step.hex() for step in path)] for path, old, new in changes]}

    def hash(self, it: dict[str, Any]) -> dict[str, Any]:
        return {"hash": self.trees[it["tree"]].hash().hex()}

    def commit(self, it: dict[str, Any]) -> dict[str, Any]:
        author, message = some(it["author"]), some(it["message"])
        tree, parents = self.trees[it["tree"]], it["parents"]
        commit = self.store.commit(tree, parents=parents, date=it["date"], author=author, message=message)
        return {"hash": commit.hex()}

    def set_branch(self, it: dict[str, Any]) -> None:
        self.store.set_branch(some(it["branch"]), it["commit"])

    def prove_finds(self, it: dict[str, Any]) -> dict[str, Any]:
        tree, paths = self.trees[it["tree"]], [[some(step) for step in path] for path in it["paths"]]

        def look(tree: varvite.Tree) -> list[bytes | None]:
            return [tree.find(path) for path in paths]

        proof, seen = varvite.prove(tree, look, stream=it["stream"])
        encoded = proof.encode(it["encoding"])
        read = varvite.Proof.decode(encoded, it["encoding"], configuration=self.configuration)
        assert read.verify(tree.hash(), look, configuration=self.configuration) == seen
        return {"proof": encoded.hex()}

    def close_store(self, _: dict[str, Any]) -> dict[str, Any]:
        for tree in self.trees.values():
            tree.close()
        self.trees = {}
        self.store.close()
        return {"files": files(self.folder)}


@pytest.mark.parametrize("name", ["table", "context", "collect", "binary", "logged", "walked"])
def test_conformance(name: str, tmp_path: Path) -> None:
    replay = Replay(tmp_path / name)
    lines = (FILES / f"{name}.jsonl").read_text().splitlines()
    compared = 0
    for number, line in enumerate(lines, 1):
        it = json.loads(line)
        try:
            for key, answer in replay.step(it).items():
                expected = sorted(it[key]) if key == "files" else it[key]
                assert answer == expected
                compared += 1
        except BaseException as raised:
            raise AssertionError(f"line {number} of {name}.jsonl: {line[:200]}") from raised
    assert compared >= 15
