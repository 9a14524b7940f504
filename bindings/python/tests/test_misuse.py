"""What a program does wrong is an exception, and never the end of the interpreter."""

from __future__ import annotations

import array
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import varvite
from varvite import Batch, Disk, MergeOperator, Session, Store, Table, Tree


@pytest.fixture
def session() -> Iterator[Session]:
    with Session.create(Disk.memory()) as session:
        yield session


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.create(Disk.memory()) as store:
        yield store


def made(session: Session, store: Store) -> dict[str, Any]:
    """One object of each class that can be closed."""
    table = session.create_table("t")
    table.insert([b"a", b"b"], [b"1", b"2"])
    session.save_snapshot("s", [table])
    tree = store.empty_tree()
    tree["a/b"] = b"1"
    writer = session.write_value()
    value = table.find([b"a"])[0]
    proof, _ = varvite.prove(tree, lambda tree: tree.find("a/b"))
    followed = Disk.memory()
    with Session.create(followed, log="written") as live:
        live.create_table("t")
    reader = Session.open_read_only(followed)
    return {
        "follower": reader.follow(),
        "view": table.view(),
        "cursor": table.cursor(),
        "items": table.items(),
        "snapshot": session.open_snapshot("s"),
        "loader": session.load_table("loaded"),
        "writer": writer,
        "value": value,
        "proof": proof,
        "walk": tree.walk(),
        "tree": tree,
        "table": table,
        "store": store,
        "session": session,
    }


# A call of each class that needs what it stands for.
USES: dict[str, Callable[[Any], object]] = {
    "follower": lambda it: it.reload(),
    "view": lambda it: it.get(b"a"),
    "cursor": lambda it: it.next(),
    "items": lambda it: next(it),
    "snapshot": lambda it: it.label,
    "loader": lambda it: it.push(b"k", b"v"),
    "writer": lambda it: it.write(b"piece"),
    "value": lambda it: it.read(),
    "proof": lambda it: it.encode(),
    "walk": lambda it: next(it),
    "tree": lambda it: it.find("a/b"),
    "table": lambda it: it.get(b"a"),
    "store": lambda it: it.log(),
    "session": lambda it: it.snapshots(),
}


def test_closed_objects_are_errors(session: Session, store: Store) -> None:
    objects = made(session, store)
    assert objects.keys() == USES.keys()
    for name, found in objects.items():
        USES[name](found)
        found.close()
        found.close()
        with pytest.raises(varvite.ClosedError):
            USES[name](found)


def methods_of(kind: type) -> list[str]:
    names = [name for name in dir(kind) if not name.startswith("_")]
    return [name for name in names if callable(getattr(kind, name))]


def test_no_method_of_a_closed_object_crashes(
    session: Session, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every method with every small number of wrong arguments: an exception of Python, or nothing."""
    monkeypatch.chdir(tmp_path)  # some make stores by names that are no paths
    objects = made(session, store)
    for found in objects.values():
        found.close()
    junk: list[Any] = [b"x", "x", 3, -1, None, [], [b"x"], (b"x", b"y"), object(), Batch(), Tree()]
    calls = refused = 0
    for found in objects.values():
        for name in methods_of(type(found)):
            for argument in [(), *((it,) for it in junk), *((it, it) for it in junk)]:
                calls += 1
                try:
                    getattr(found, name)(*argument)
                except Exception:  # noqa: BLE001
                    refused += 1
    assert calls > 2_000 and refused > calls * 0.8


def test_tables_of_a_closed_session_are_closed() -> None:
    session = Session.create(Disk.memory())
    table = session.create_table("t")
    view, cursor = table.view(), table.cursor()
    session.close()
    for call in (lambda: table.insert([b"a"], [b"b"]), lambda: table.get(b"a"), lambda: view.get(b"a"), cursor.next):
        with pytest.raises(varvite.ClosedError):
            call()
    table.close()


def test_arguments_of_the_wrong_kind(session: Session) -> None:
    table = session.create_table("t")
    with pytest.raises(TypeError, match="is a str"):
        table.get("text")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no buffer"):
        table.get(5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="pass a sequence"):
        table.lookup(b"one key")
    with pytest.raises(varvite.InvalidError, match="2 keys and 1 values"):
        table.insert([b"a", b"b"], [b"1"])
    with pytest.raises(TypeError, match="no option colour"):
        session.create_table("u", colour="blue")  # type: ignore[call-arg]
    with pytest.raises(varvite.InvalidError, match="choose one of none, written, synced"):
        Session.create(Disk.memory(), log="loud")  # type: ignore[arg-type]
    with pytest.raises(varvite.InvalidError, match="pass less"):
        varvite.Cache(2**62)
    with pytest.raises(varvite.InvalidError, match="a hash has 32 bytes"):
        varvite.hash_text(b"short")
    with pytest.raises(OverflowError):
        varvite.Cache(-1)
    with pytest.raises(ValueError, match="offsets"):
        table.lookup((array.array("q", [0, 5, 2]), b"abcde"))
    with pytest.raises(ValueError, match="offsets"):
        table.lookup((array.array("q", [0, 99]), b"abcde"))


def test_kinds_of_errors(tmp_path: Path) -> None:
    with pytest.raises(varvite.MissingError):
        Session.open(tmp_path / "nothing")
    with Session.create(tmp_path / "s") as session:
        with pytest.raises(varvite.LockedError):
            Session.open(tmp_path / "s")
        table = session.create_table("t")
        session.save_snapshot("one", [table])
        with pytest.raises(varvite.ExistsError) as caught:
            session.save_snapshot("one", [table])
        assert caught.value.kind == "exists"
        assert isinstance(caught.value, varvite.Error)
        with pytest.raises(varvite.InvalidError):
            table.upsert([b"a"], [b"b"])
    (manifest,) = (tmp_path / "s").rglob("one.snapshot*")
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"\xff")
    with Session.open(tmp_path / "s") as session, pytest.raises(varvite.CorruptError):
        session.open_snapshot("one")
    assert varvite.check(tmp_path / "s") != []
    known = {it.kind for it in varvite.Error.__subclasses__()}
    assert len(known) == 12


class Refused(Exception):
    pass


def operator(join: Callable[[bytes, bytes], Any]) -> MergeOperator:
    return MergeOperator("tests.join", join)


def small(session: Session, join: Callable[[bytes, bytes], Any]) -> Table:
    return session.create_table("t", operator=operator(join), write_buffer_bytes=64)


def test_an_operator_that_raises_changes_nothing(session: Session) -> None:
    broken = True

    def join(older: bytes, newer: bytes) -> bytes:
        if broken:
            raise Refused(older, newer)
        return older + newer

    table = small(session, join)
    table.insert([b"a"], [b"1"])
    with pytest.raises(Refused) as caught:
        for _ in range(50):
            table.upsert([b"a"], [b"2"])
            table.get(b"a")
    assert caught.value.args[1] == b"2"
    broken = False
    found = table.get(b"a")
    assert found is not None and found.startswith(b"1") and set(found[1:]) <= {ord("2")}
    table.upsert([b"a"], [b"3"])
    assert table.get(b"a") == found + b"3"


def joins_that_fail(session: Session, name: str, keys: int, blob_min_bytes: int | None) -> tuple[Table, list[Any]]:
    """A table of keys in runs, of which the one in the middle is to be joined; a join raises what the list has last."""
    failures: list[Any] = []

    def join(older: bytes, newer: bytes) -> bytes:
        if failures:
            raise failures.pop()
        return older + newer

    options: Any = {"write_buffer_bytes": 4096, "size_ratio": 2, "blob_min_bytes": blob_min_bytes}
    table = session.create_table(name, operator=operator(join), **options)
    table.insert([b"%04d" % it for it in range(keys)], [b"v" * 200] * keys)
    table.upsert([b"%04d" % (keys // 2)], [b"!"])
    return table, failures


@pytest.mark.parametrize("blob_min_bytes", [None, 64])
@pytest.mark.parametrize("keys", [40, 100, 700])
def test_what_is_raised_once_is_not_swallowed(session: Session, keys: int, blob_min_bytes: int | None) -> None:
    """However far was read ahead: what comes before the failure is given, then it is raised."""
    table, failures = joins_that_fail(session, "t", keys, blob_min_bytes)
    middle = keys // 2
    every = [b"%04d" % it for it in range(keys)]

    def walk(it: Iterator[tuple[bytes, bytes]]) -> tuple[list[bytes], int]:
        found, raised = [], 0
        while raised < 2:
            try:
                found.append(next(it)[0])
            except Refused:
                raised += 1
            except StopIteration:
                break
        return found, raised

    for limit in (1, 3, keys, 1_000):
        failures[:] = [Refused()]
        cursor, raised = table.cursor(), 0
        found: list[bytes | None] = []
        while True:
            try:
                entries = cursor.next_many(limit)
            except Refused:
                assert len(found) == middle
                raised += 1
                continue
            if not len(entries):
                break
            found += entries.keys.to_list()
        assert (found, raised) == (every, 1)
    # The next call of any kind raises it, unless the place is another.
    failures[:] = [Refused()]
    cursor = table.cursor()
    cursor.next_many(1_000)
    with pytest.raises(Refused):
        cursor.next()
    assert cursor.next_key() == b"%04d" % middle
    failures[:] = [Refused()]
    cursor.seek_first()
    cursor.next_many(1_000)
    cursor.seek_first()
    assert cursor.next_key() == b"0000"

    # An iterator ends by it, at both ends.
    for view in (table, table.view()):
        failures[:] = [Refused()]
        assert walk(view.items()) == (every[:middle], 1)
        failures[:] = [Refused()]
        assert walk(reversed(view.items())) == (every[: middle : -1], 1)
        failures[:] = [Refused()]
        items = view.items()
        front = walk(items)[0]
        assert front == every[:middle] and list(items) == [] and list(reversed(items)) == []
        assert not failures


def test_a_walk_gives_what_comes_before_damage(tmp_path: Path) -> None:
    """However far was read ahead, values before one that cannot be read are given, then the error, each time."""
    names = [f"{it:04}" for it in range(1_000)]
    with Store.create(tmp_path / "c", chunk_bytes=1 << 20) as store:
        tree = store.empty_tree()
        for name in names:
            tree["d", name] = name.encode() * 200
        commit = store.commit(tree)
    pack = max(tmp_path.rglob("*.pack"), key=lambda it: it.stat().st_size)
    data = pack.read_bytes()
    for name in ("0002", "0100", "0700"):
        hurt = bytearray(data)
        at = data.find(name.encode() * 200)
        assert at > 0
        hurt[at + 80] ^= 0xFF
        pack.write_bytes(hurt)
        with Store.open_read_only(tmp_path / "c", pages_bytes=0, objects_bytes=0) as store:
            # Pages fail whole, so what is read value by value says where the first one is.
            tree = store.checkout(commit)

            def fails(name: str, tree: Tree = tree) -> bool:
                try:
                    tree["d", name]
                except varvite.CorruptError:
                    return True
                return False

            first = next(it for it in names if fails(it))
            items, found = tree.items("d"), list[str]()
            with pytest.raises(varvite.CorruptError):
                while True:
                    found.append(next(items)[0][0].decode())
            assert found == names[: names.index(first)]
            for _ in range(2):
                with pytest.raises(varvite.CorruptError):
                    next(items)
        pack.write_bytes(data)


# More than a process can address, so that no system promises it.
HUGE = 1 << 48


def test_what_memory_does_not_hold_is_an_error(session: Session, store: Store) -> None:
    """Numbers, and arrays that say that they are larger than anything: no end of the process."""
    numpy = pytest.importorskip("numpy")
    table, tree = session.create_table("t"), store.empty_tree()
    row = numpy.zeros((1, 34), numpy.uint8)
    wide = numpy.broadcast_to(row, (HUGE, 34))
    flat = numpy.broadcast_to(numpy.zeros(1, numpy.uint8), (HUGE,))
    none = numpy.zeros((HUGE, 0), numpy.uint8)
    offsets = numpy.broadcast_to(numpy.zeros(1, numpy.int64), (HUGE >> 3,))
    calls: list[Callable[[], object]] = []

    def with_keys(many: Any) -> list[Callable[[], object]]:
        return [
            lambda: table.lookup(many),
            lambda: table.insert(many, many),
            lambda: Batch().delete_many(many),
            lambda: tree.find_each("a", many),
        ]

    def with_key(key: Any) -> list[Callable[[], object]]:
        return [
            lambda: table.get(key),
            lambda: table.range(key),
            lambda: table.items(prefix=key),
            lambda: Batch().insert(b"a", key),
            lambda: Batch().delete_prefix(key),
            lambda: tree.add(["a"], key),
            lambda: tree.find([key]),
            lambda: session.save_snapshot("s", [table], payload=key),
            lambda: varvite.Proof.decode(key),
            lambda: store.commit(tree, author=key),
        ]

    for many in (wide, none, (offsets, b""), (numpy.zeros(2, numpy.int64), flat), [b"a", flat], (flat,)):
        calls += with_keys(many)
    for key in (flat, wide):
        calls += with_key(key)
    for number, call in enumerate(calls):
        with pytest.raises(MemoryError):
            call()
            pytest.fail(f"call {number} answered")
    most = 2**63 - 1
    for options in (
        {"cache_bytes": most},
        {"memory_bytes": most},
        {"queue_depth": most},
        {"max_open_files": most},
        {"segment_bytes": most},
        {"log_file_bytes": most},
    ):
        place = Disk.memory()
        try:
            if "cache_bytes" in options:
                varvite.Cache(most)
            else:
                Session.create(place, **options).create_table("t").insert([b"a"], [b"b"])  # type: ignore[arg-type]
        except varvite.Error:
            pass
    for name in ("memory_bytes", "write_buffer_bytes", "filter_bytes_max"):
        try:
            made = session.create_table(name, **{name: most})  # type: ignore[arg-type]
            made.insert([b"a"], [b"b"])
        except varvite.Error:
            pass
    for name in ("objects_bytes", "hashes_bytes", "pages_bytes", "index_bytes", "tree_bytes", "chunk_bytes", "max_open_files"):
        try:
            with Store.create(Disk.memory(), **{name: most}) as other:  # type: ignore[arg-type]
                other.commit(other.empty_tree())
        except varvite.Error:
            pass
    with pytest.raises(varvite.InvalidError):
        session.load_table("sorted", sort_bytes=most)
    table.insert([b"a"], [b"b"])
    assert len(table.cursor().next_many(most)) == 1
    tree["a"] = b"1"
    assert len(tree.list(length=most)) == 1
    store.commit(tree)
    assert len(store.log(most)) == 1 and len(store.history([], most)) == 0
    (value,) = table.find([b"a"])
    assert value is not None and value.read_at(0, most) == b"b"


class Host:
    """What a program may be: an object whose methods are callbacks of what it holds."""

    def __init__(self, kind: str) -> None:
        joined = MergeOperator("tests.join", self.join)
        self.found: list[Any] = []
        options: Any = {"observer": {"observer": self.see}, "executor": {"executor": self.see}}.get(kind, {})
        if kind == "store":
            self.store = Store.create(Disk.memory(), observer=self.see)
            self.tree = self.store.empty_tree()
            return
        if kind == "bound":
            self.bound = varvite.Included(self.found)  # type: ignore[arg-type]
            self.found.append(self.bound)
            return
        self.session = Session.create(Disk.memory(), **options)
        table = self.session.create_table("t", operator=joined)
        table.insert([b"a"], [b"1"])
        self.session.save_snapshot("s", [table])
        if kind == "opened":
            with self.session.open_snapshot("s", operators=[joined]) as snapshot:
                table = snapshot.take("t")
        # What has the session in use, and no session: each keeps the callbacks.
        parts: dict[str, Callable[[], object]] = {
            "table": lambda: table,
            "view": table.view,
            "cursor": table.cursor,
            "items": table.items,
            "duplicate": lambda: table.duplicate("d"),
            "snapshot": lambda: self.session.open_snapshot("s", operators=[joined]),
            "loader": lambda: self.session.load_table("l", operator=joined),
            "union": lambda: self.session.union("u", [table, table.duplicate("d")]),
        }
        if kind in parts:
            self.part = parts[kind]()
            del self.session

    def join(self, older: bytes, newer: bytes) -> bytes:
        self.found.append(newer)
        return older + newer

    def see(self, *_: object) -> None:
        self.found.append(None)


PARTS = ["table", "view", "cursor", "items", "duplicate", "snapshot", "loader", "union"]


@pytest.mark.parametrize("kind", ["operator", "opened", "observer", "executor", "store", "bound", *PARTS])
def test_circles_through_callbacks_are_collected(kind: str) -> None:
    import weakref

    def made() -> weakref.ref[Host]:
        host = Host(kind)
        return weakref.ref(host)

    gc.collect()
    found = made()
    gc.collect()
    assert found() is None


def test_callbacks_live_as_long_as_what_may_call_them() -> None:
    """The collector takes no callback from what can still be reached."""
    joined: list[bytes] = []

    def view_of() -> tuple[varvite.View, Table]:
        class Joins:
            def __init__(self) -> None:
                self.session = Session.create(Disk.memory())
                self.table = self.session.create_table("t", operator=operator(self.join), write_buffer_bytes=512)
                self.table.insert([b"a"], [b"1" * 600])
                self.table.upsert([b"a"], [b"2"])

            def join(self, older: bytes, newer: bytes) -> bytes:
                joined.append(newer)
                return older + newer

        host = Joins()
        return host.table.view(), host.table.duplicate("d")

    view, duplicate = view_of()
    gc.collect()
    duplicate.upsert([b"a"], [b"3"])
    assert view[b"a"] == b"1" * 600 + b"2" and duplicate[b"a"] == b"1" * 600 + b"23"
    assert joined


def test_an_operator_of_two_sessions_outlives_one() -> None:
    shared = MergeOperator("tests.join", lambda older, newer: older + newer)
    with Session.create(Disk.memory()) as kept:
        table = kept.create_table("t", operator=shared)

        def circle() -> None:
            class Other:
                pass

            other: Any = Other()
            other.session = Session.create(Disk.memory(), observer=lambda *_: other)
            other.session.create_table("t", operator=shared)

        circle()
        gc.collect()
        table.insert([b"a"], [b"1"])
        table.upsert([b"a"], [b"2"])
        assert table[b"a"] == b"12"


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_a_callback_raises_the_caller_gets(session: Session, kind: type[BaseException]) -> None:
    def fail(*_: object) -> bytes:
        raise kind

    table = small(session, fail)
    with pytest.raises(kind):
        for _ in range(50):
            table.upsert([b"a"], [b"2"])
            table.get(b"a")
    tree = Tree()
    tree["a"] = b"1"
    other = tree.duplicate()
    other["a"] = b"2"
    for call in (
        lambda: tree.fold(fail),
        lambda: tree.diff(other, each=fail),
        lambda: tree.merge(Tree(), other, fail),
        lambda: varvite.prove(tree, fail),
    ):
        with pytest.raises(kind):
            call()


@pytest.mark.parametrize("answer", [None, 7, "text"])
def test_an_operator_that_gives_no_bytes(session: Session, answer: object) -> None:
    table = small(session, lambda older, newer: answer)
    with pytest.raises(TypeError):
        for _ in range(50):
            table.upsert([b"a"], [b"2"])
            table.get(b"a")


def test_an_operator_may_not_call_varvite(session: Session) -> None:
    other = session.create_table("other")
    table = small(session, lambda older, newer: other.get(b"x") or b"")
    with pytest.raises(varvite.InvalidError, match="return first"):
        for _ in range(50):
            table.upsert([b"a"], [b"2"])
            table.get(b"a")


def test_objects_that_an_operator_lets_go_are_closed_later(session: Session) -> None:
    """What is collected in the engine's middle may hold its locks: it waits."""
    garbage: list[Any] = [session.create_table(f"t{number}") for number in range(20)]

    def join(older: bytes, newer: bytes) -> bytes:
        if garbage:
            garbage.pop()
        return older + newer

    table = small(session, join)
    for _ in range(60):
        table.upsert([b"a"], [b"2"])
        table.get(b"a")
    assert not garbage
    assert table.get(b"a") == b"2" * 60


def test_observers_that_raise_are_told_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: told.append(it.exc_value))

    def observe(*_: object) -> None:
        raise Refused

    with Session.create(Disk.memory(), observer=observe) as session:
        session.create_table("t").insert([b"a"], [b"b"])
    with Store.create(Disk.memory(), observer=observe) as store:
        tree = store.empty_tree()
        tree["a"] = b"1"
        store.commit(tree)
    assert told and all(isinstance(it, Refused) for it in told)


def test_executors_that_raise_or_keep_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda it: None)
    kept: list[varvite.Work] = []

    def execute(work: varvite.Work) -> None:
        kept.append(work)
        if len(kept) % 2:
            raise Refused
        with pytest.raises(varvite.InvalidError, match="return first"):
            work()

    with Session.create(Disk.memory(), executor=execute) as session:
        table = session.create_table("t", write_buffer_bytes=1 << 14)
        for number in range(2_000):
            table.insert([b"%05d" % (number * 7 % 2_000)], [b"v" * 60])
        assert kept
        for work in kept[::2]:
            work()
            work()
        kept.clear()
        assert table.view().count() == 2_000


def test_callbacks_of_walks_may_raise_and_call(store: Store) -> None:
    tree = store.empty_tree()
    for number in range(40):
        tree[f"a/{number}"] = b"v"
    other = tree.duplicate()

    def each(path: tuple[bytes, ...], found: Tree) -> None:
        tree["changed"] = b"beneath"
        if len(path) == 2:
            raise Refused(path)

    with pytest.raises(Refused):
        tree.fold(each)
    assert tree["changed"] == b"beneath"
    with pytest.raises(Refused):
        other.diff(tree, each=lambda *_: (_ for _ in ()).throw(Refused))


def test_what_a_resolver_cannot_have_at_once_is_an_error(store: Store) -> None:
    """A merge of commits has the store in use: a callback that waited for it would wait for itself."""
    tree = store.empty_tree()
    tree["a"] = b"0"
    base = store.commit(tree)
    sides = []
    for value in (b"1", b"2"):
        tree = store.checkout(base)
        tree["a"] = value
        sides.append(store.commit(tree, parents=[base]))
    ours, theirs = sides

    def resolve(*_: object) -> bytes:
        store.checkpoint()
        return b""

    with pytest.raises(varvite.LockedError, match="a callback needs a store"):
        store.merge_commits(ours, theirs, resolve)
    store.set_branch("main", ours)
    with pytest.raises(varvite.LockedError):
        store.merge_branch("main", theirs, lambda *_: store.log()[0])
    with pytest.raises(Refused):
        store.merge_branch("main", theirs, lambda *_: (_ for _ in ()).throw(Refused))
    assert store.branch("main") == ours
    assert store.merge_branch("main", theirs).outcome == "conflicts"
    assert store.merge_branch("main", theirs, lambda *_: varvite.UNRESOLVED).outcome == "conflicts"
    merged = store.merge_branch("main", theirs, lambda path, base, ours, theirs: (ours or b"") + (theirs or b""))
    assert merged.outcome == "merged"
    assert store.checkout(store.branch("main") or b"")["a"] == b"12"


def test_a_proof_function_that_misbehaves() -> None:
    tree = Tree()
    tree["a"] = b"1"
    kept: list[Tree] = []

    def keep(tree: Tree) -> None:
        kept.append(tree)

    proof, _ = varvite.prove(tree, keep)
    with pytest.raises(varvite.ClosedError):
        kept[0].find("a")
    with pytest.raises(varvite.InvalidError, match="closed the tree"):
        varvite.prove(tree, lambda it: it.close())
    with pytest.raises(Refused):
        varvite.prove(tree, lambda it: (_ for _ in ()).throw(Refused))
    with pytest.raises(varvite.HiddenError):
        proof.verify(tree.hash(), lambda it: it.find("a"))
    with pytest.raises(varvite.CorruptError):
        proof.verify(bytes(32))
    for encoded in (b"", b"\x00" * 9, b"{", os.urandom(200)):
        with pytest.raises(varvite.Error):
            varvite.Proof.decode(encoded)


def test_buffers_that_change_or_are_read_only(session: Session) -> None:
    table = session.create_table("t")
    table.insert([bytearray(b"a"), memoryview(b"xbx")[1:2]], [b"1", memoryview(b"12345678")[::2]])
    assert list(table.items()) == [(b"a", b"1"), (b"b", b"1357")]
    values = table.lookup([b"a", b"nothing"])
    data = values.data
    with pytest.raises(TypeError):
        data[0] = 5
    del values
    gc.collect()
    assert bytes(data) == b"1"
    assert data.readonly and data.format == "B"


def in_child(body: Callable[[], None]) -> int:
    """What became of a child that ran `body`: 0 when it came to its end."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_cannot_use_what_its_parent_opened(tmp_path: Path) -> None:
    session, store = Session.create(tmp_path / "s"), Store.create(tmp_path / "c")
    objects = made(session, store)

    def child() -> None:
        for name, found in objects.items():
            with pytest.raises(varvite.ClosedError, match="forked"):
                USES[name](found)
            with pytest.raises(varvite.ClosedError):
                found.close()
        with pytest.raises(varvite.LockedError):
            Session.open(tmp_path / "s")
        with Session.create(tmp_path / "own") as own:
            own.create_table("t").insert([b"a"], [b"b"])
        objects.clear()

    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            objects["table"].get(b"a")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert in_child(child) == 0
    finally:
        stop.set()
        reader.join()
    # The parent goes on, and what it had is there.
    for name in ("table", "tree", "store", "session"):
        USES[name](objects[name])
    objects["table"].insert([b"c"], [b"3"])
    session.save_snapshot("later", [objects["table"]])
    store.commit(objects["tree"])
    session.close()
    store.close()
    assert varvite.check(tmp_path / "s") == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_returns_from_a_callback_ends(capfd: pytest.CaptureFixture[str]) -> None:
    with Session.create(Disk.memory()) as session:
        children: list[int] = []
        parent = os.getpid()

        def join(older: bytes, newer: bytes) -> bytes:
            if not children:
                child = os.fork()
                if child == 0:
                    faulthandler.disable()  # pytest's, which would tell of this end as of one that nobody wants
                else:
                    children.append(child)
            return older + newer

        table = small(session, join)
        for _ in range(50):
            table.upsert([b"a"], [b"2"])
            table.get(b"a")
            if os.getpid() != parent:
                os._exit(7)  # the engine went on in the child
        (child,) = children
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT
        assert "forked in a callback" in capfd.readouterr().err
        assert table.get(b"a") == b"2" * 50


def work_in_process(folder: str) -> int:
    with Session.open_read_only(folder) as session, session.open_snapshot("s") as snapshot:
        return snapshot.take("t").view().count()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_read_beside_the_writer(tmp_path: Path, method: str) -> None:
    with Session.create(tmp_path / "s") as session:
        table = session.create_table("t")
        table.insert([b"%d" % it for it in range(100)], [b"v"] * 100)
        session.save_snapshot("s", [table])
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work_in_process, [str(tmp_path / "s")] * 4) == [100] * 4


def test_objects_left_open_at_the_end(tmp_path: Path) -> None:
    """An interpreter that ends with everything open, and threads that are in calls, ends."""
    import subprocess

    program = """
import sys, threading, varvite
session = varvite.Session.create(sys.argv[1], log="written")
table = session.create_table("t", operator=varvite.MergeOperator("j", lambda a, b: a + b))
store = varvite.Store.create(varvite.Disk.memory())
tree = store.empty_tree(); tree["a"] = b"1"
table.insert([b"a"], [b"1"])
items = table.items()
def work():
    while True:
        table.upsert([b"a"], [b"2"]); table.get(b"a")[:9]; table.insert([b"a"], [b"1"])
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
import time; time.sleep(0.2)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    with Session.open(tmp_path / "s", log="written") as session:
        joined = MergeOperator("j", lambda a, b: a + b)
        assert session.open_table("t", operators=[joined]).get(b"a") in (b"1", b"12")
