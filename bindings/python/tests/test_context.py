"""The context against a model: nested dictionaries, as `engine/tests/it/model/context.rs` has them; and stories."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import varvite
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule
from varvite import Configuration, Disk, Store, Tree

Model = dict[tuple[bytes, ...], bytes]

# How long an example takes says nothing on a machine that does other things too.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
EXAMPLES = int(os.environ.get("VARVITE_EXAMPLES", "40"))

STEPS = st.sampled_from([b"a", b"b", b"c", b"0", b"1", "ü".encode(), b"x" * 40])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
VALUES = st.binary(max_size=40)


def below(model: Model, path: tuple[bytes, ...]) -> Model:
    length = len(path)
    return {found[length:]: value for found, value in model.items() if found[:length] == path}


def add(model: Model, path: tuple[bytes, ...], value: bytes) -> None:
    for length in range(1, len(path)):
        model.pop(path[:length], None)
    for found in [it for it in model if it[: len(path)] == path]:
        del model[found]
    model[path] = value


def remove(model: Model, path: tuple[bytes, ...]) -> None:
    for found in [it for it in model if it[: len(path)] == path]:
        del model[found]


class Machine(RuleBasedStateMachine):
    """Trees of one store, each beside its model, and commits of them."""

    trees = Bundle("trees")
    commits = Bundle("commits")

    @initialize(index=st.sampled_from(["minimal", "always"]))
    def begin(self, index: Any) -> None:
        self.disk = Disk.memory(3)
        self.store = Store.create(self.disk, seed=9, index=index, tree_bytes=4096)
        self.date = 0

    @rule(target=trees)
    def empty(self) -> tuple[Tree, Model]:
        return self.store.empty_tree(), {}

    @rule(it=trees, path=PATHS, value=VALUES)
    def add(self, it: tuple[Tree, Model], path: tuple[bytes, ...], value: bytes) -> None:
        it[0].add(path, value)
        add(it[1], path, value)

    @rule(it=trees, path=PATHS)
    def remove(self, it: tuple[Tree, Model], path: tuple[bytes, ...]) -> None:
        del it[0][path]
        remove(it[1], path)

    @rule(it=trees, other=trees, path=PATHS)
    def graft(self, it: tuple[Tree, Model], other: tuple[Tree, Model], path: tuple[bytes, ...]) -> None:
        model = dict(other[1])
        it[0].add_tree(path, other[0])
        if not model:
            remove(it[1], path)
            return
        add(it[1], path, b"")
        del it[1][path]
        it[1].update({path + rest: value for rest, value in model.items()})

    @rule(it=trees, path=PATHS)
    def find(self, it: tuple[Tree, Model], path: tuple[bytes, ...]) -> None:
        tree, model = it
        inside = below(model, path)
        assert tree.find(path) == model.get(path)
        assert tree.mem(path) == (path in model)
        assert (path in tree) == bool(inside)
        children = {rest[0] for rest in inside if rest}
        assert {name for name, _ in tree.list(path)} == children
        assert tree.length(path) == len(children)
        subtree = tree.find_tree(path)
        assert (subtree is None) == (not inside)
        if subtree is not None:
            assert subtree.kind == ("value" if path in model else "directory")
            assert subtree.value == model.get(path)
            assert dict(subtree.items()) == inside

    @rule(it=trees, order=st.sampled_from(["sorted", "undefined"]))
    def walks(self, it: tuple[Tree, Model], order: Any) -> None:
        tree, model = it
        found = list(tree.items(order=order))
        assert dict(found) == model and len(found) == len(model)
        folded: list[tuple[tuple[bytes, ...], str]] = []
        tree.fold(lambda path, found: folded.append((path, found.kind)), order=order)
        assert folded == [(path, found.kind) for path, found in tree.walk(order=order)]
        if order == "sorted":
            assert [path for path, _ in found] == sorted(model)
        paths = sorted(model)
        assert tree.find_many(paths).to_list() == [model[path] for path in paths]

    @rule(one=trees, two=trees)
    def compare(self, one: tuple[Tree, Model], two: tuple[Tree, Model]) -> None:
        assert one[0].equal(two[0]) == (one[1] == two[1]) == (one[0].hash() == two[0].hash())
        paths = sorted(one[1].keys() | two[1].keys())
        changes = [(path, one[1].get(path), two[1].get(path)) for path in paths]
        changes = [change for change in changes if change[1] != change[2]]
        assert one[0].diff(two[0]) == changes
        told: list[Any] = []
        one[0].diff(two[0], each=lambda *change: told.append(change))
        assert told == changes

    @rule(target=commits, it=trees)
    def commit(self, it: tuple[Tree, Model]) -> tuple[bytes, Model]:
        self.date += 1
        if not it[1]:
            with pytest.raises(varvite.InvalidError, match="add a value first"):
                self.store.commit(it[0])
            it[0].add("something", b"1")
            it[1][(b"something",)] = b"1"
        expected = self.store.hash(it[0], date=self.date, author="me", message=b"why")
        assert self.store.commit(it[0], date=self.date, author="me", message=b"why") == expected
        info = self.store.commit_info(expected)
        assert (info.date, info.author, info.message, info.tree) == (self.date, b"me", b"why", it[0].hash())
        return expected, dict(it[1])

    @rule(target=trees, it=commits, as_text=st.booleans())
    def checkout(self, it: tuple[bytes, Model], as_text: bool) -> tuple[Tree, Model]:
        return self.store.checkout(varvite.hash_text(it[0]) if as_text else it[0]), dict(it[1])

    @rule(it=trees, paths=st.lists(PATHS, min_size=1, max_size=4), stream=st.booleans(), data=st.data())
    def prove(self, it: tuple[Tree, Model], paths: Any, stream: bool, data: st.DataObject) -> None:
        encoding: Any = data.draw(st.sampled_from(["v1", "v2", "json"] + ["irmin"] * (not stream)))

        def look(tree: Tree) -> list[bytes | None]:
            tree.add(("new",), b"1")
            return [tree.find(path) for path in paths]

        proof, seen = varvite.prove(it[0], look, stream=stream)
        expected = dict(it[1])
        add(expected, (b"new",), b"1")
        assert seen == [expected.get(path) for path in paths]
        again = varvite.Proof.decode(proof.encode(encoding), encoding)
        assert (again.before, again.is_stream) == (("directory", it[0].hash()), stream)
        assert again.verify(it[0].hash(), look) == seen

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.disk, tree_bytes=4096)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            checked = self.store.check()
            assert checked.index_faults == [] and checked.commits == len(self.store.log())
            self.store.close()


Machine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=QUIET, derandomize=True
)
TestContext = Machine.TestCase


def test_paths_may_be_written_in_three_ways() -> None:
    tree = Tree()
    tree["a/b"] = b"1"
    assert tree["a", "b"] == tree[b"a/b"] == tree[[b"a", bytearray(b"b")]] == b"1"
    assert tree.find("") is None and tree.find_tree("") is not None
    tree[("with/slash",)] = b"2"
    assert [path for path, _ in tree.items()] == [(b"a", b"b"), (b"with/slash",)]
    with pytest.raises(KeyError):
        tree["a/c"]
    with pytest.raises(TypeError):
        tree.find(5)  # type: ignore[arg-type]


def test_only_a_sequence_has_steps_without_bytes() -> None:
    tree = Tree()
    for path in ("/a/b", "a/b/", "a//b", b"//a/b//", "/".join(["", *"abcdefgh", ""])):
        tree[path] = b"1"
    assert [path for path, _ in tree.items()] == [(b"a", b"b", *(it.encode() for it in "cdefgh"))]
    tree = Tree()
    tree["/a/b/"] = b"1"
    assert dict(tree.items()) == {(b"a", b"b"): b"1"} and tree.length("/") == 1
    tree["", "a"] = b"2"
    assert dict(tree.items()) == {(b"", b"a"): b"2", (b"a", b"b"): b"1"} and tree["a/b"] == b"1"


def test_branches_and_readers(tmp_path: Path) -> None:
    with Store.create(tmp_path / "c", durability="written") as store:
        tree = store.empty_tree()
        tree["a"] = b"1"
        first = store.commit(tree, message="first")
        store.set_branch("main", first)
        with Store.open_read_only(tmp_path / "c") as reader:
            tree["a"] = b"2"
            second = store.commit(tree, parents=[first])
            assert not reader.exists(second)
            reader.reload()
            assert reader.checkout(second)["a"] == b"2"
            with pytest.raises(varvite.Error):
                reader.commit(reader.checkout(second))
        assert store.test_and_set_branch("main", first, second)
        assert not store.test_and_set_branch("main", first, second)
        assert store.branches() == [(b"main", second)]
        store.remove_branch("main")
        assert store.branch("main") is None
        assert store.log() == [second, first]
        assert [it.hash for it in store.history([second])] == [second, first]
        assert store.lowest_common_ancestors(second, first) == [first]
        assert store.merge_commits(first, second).outcome == "fast_forward"
        assert store.merge_commits(second, first).outcome == "unchanged"
        store.checkpoint()
        store.begin_chunk()
        store.rebuild_index()
        assert store.stats().commits == 2
        assert (store.last_commit(), store.warnings) == (second, [])
        assert store.configuration == Configuration.TEZOS == Configuration(32, 256)
        store.clear()
        assert store.log() == []


def test_merges_of_trees() -> None:
    base = Tree()
    base["a"], base["b"], base["same"] = b"1", b"2", b"3"
    ours, theirs = base.duplicate(), base.duplicate()
    ours["a"], theirs["a"], theirs["b"], theirs["c/d"] = b"ours", b"theirs", b"new", b"4"
    merge = ours.merge(base, theirs)
    assert merge.outcome == "conflicts" and merge.tree is not None
    (conflict,) = merge.conflicts
    sides = (conflict.base, conflict.ours, conflict.theirs)
    assert conflict.path == (b"a",) and [it and it.value for it in sides] == [b"1", b"ours", b"theirs"]
    assert dict(merge.tree.items()) == {(b"a",): b"ours", (b"b",): b"new", (b"c", b"d"): b"4", (b"same",): b"3"}
    merge = ours.merge(base, theirs, lambda path, base, ours, theirs: None)
    assert merge.outcome == "merged" and merge.tree is not None and "a" not in merge.tree


def test_a_proof_is_checked_without_a_store() -> None:
    tree = Tree()
    for number in range(300):
        tree[f"contracts/{number}"] = b"%d" % number
    proof, value = varvite.prove(tree, lambda it: it.find("contracts/7"))
    proof = varvite.Proof.decode(proof.encode())
    summary = proof.summary()
    assert (value, summary.values, summary.value_bytes) == (b"7", 1, 1)
    proof.check()
    shown = proof.open(tree.hash())
    assert shown["contracts/7"] == b"7"
    with pytest.raises(varvite.HiddenError):
        shown.find("contracts/8")
    assert proof.after == proof.before
    binary = Tree(Configuration.TEZOS_BINARY)
    binary["a"] = b"1"
    proof, _ = varvite.prove(binary, lambda it: it.find("a"))
    assert proof.verify(binary.hash(), lambda it: it.find("a"), configuration=Configuration.TEZOS_BINARY) == b"1"


def test_observers_are_told_of_paths() -> None:
    told: list[Any] = []
    with Store.create(Disk.memory(), observer=lambda *it: told.append(it)) as store:
        tree = store.empty_tree()
        tree["a/b/c/d"] = b"1"
        store.commit(tree)
    operations = [it[0] for it in told]
    assert operations[0] == "add" and "commit" in operations
    assert told[0][1] == (b"a", b"b", b"c", b"d")
    assert any(cost.bytes_written > 0 for *_, cost in told)


def test_stores_are_exported_and_migrated(tmp_path: Path) -> None:
    with Store.create(Disk.memory()) as store:
        tree = store.empty_tree()
        parents: list[bytes] = []
        for number in range(5):
            tree.add_each("accounts", [b"%d-%d" % (number, it) for it in range(30)], [b"5"] * 30, "balance")
            parents = [store.commit(tree, parents=parents, date=number)]
        store.set_branch("main", parents[0])
        watched: list[Any] = []
        exported = varvite.export_irmin(store, tmp_path / "irmin", tmp_path / "scratch", watch=watched.append)
        assert (exported.commits, exported.branches) == (5, 1) and watched
        with pytest.raises(ZeroDivisionError):
            varvite.export_irmin(store, Disk.memory(), Disk.memory(), watch=lambda it: 1 / 0)
    assert varvite.is_irmin(tmp_path / "irmin")
    with varvite.open_irmin(tmp_path / "irmin", verify="trust") as irmin, Store.create(Disk.memory()) as target:
        migrated = varvite.migrate_irmin(tmp_path / "irmin", target, watch=watched.append)
        assert (migrated.commits, migrated.branches) == (5, 1)
        assert target.branch("main") == irmin.branch("main") == parents[0]
        assert target.checkout(parents[0]).equal(irmin.checkout(parents[0]))
        assert irmin.checkout(parents[0]).find_each("accounts", [b"0-0", b"9-9"], "balance").to_list() == [b"5", None]


DATA = Path(os.environ.get("VARVITE_DATA", Path(__file__).parents[4] / "shared" / "data"))
STORES = sorted(DATA.glob("irmin-stores/*/expect.json.gz"))


@pytest.mark.skipif(not STORES, reason="the stores that Irmin wrote are not there")
@pytest.mark.parametrize("expect", STORES, ids=lambda it: it.parent.name)
def test_stores_of_irmin_are_read(expect: Path) -> None:
    expected = json.loads(gzip.decompress(expect.read_bytes()))
    lower = expect.parent / "lower"
    shape = expected["conf"]
    configuration = Configuration(shape["entries"], shape["stable_hash"], shape["inode_child_order"])
    options: Any = {"lower": lower} if lower.is_dir() else {}
    with varvite.open_irmin(expect.parent / "store", configuration=configuration, **options) as store:
        compared = 0
        for commit in expected["commits"]:
            if commit["readable"] != "full":
                continue
            info = store.commit_info(commit["hash"])
            assert (info.author.hex(), info.message.hex()) == (commit["author"], commit["message"])
            tree = store.checkout(commit["hash"])
            listed = [["/".join(step.hex() for step in path), value.hex()] for path, value in tree.items()]
            assert sorted(listed) == sorted(expected["trees"][commit["tree"]])
            assert tree.hash().hex() == commit["tree"]
            compared += 1
        assert compared == len([it for it in expected["commits"] if it["readable"] == "full"])
