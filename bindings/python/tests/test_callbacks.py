"""Callbacks that raise, that call back, or that hold what calls them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import varvite
from conftest import Refused, operator, small
from varvite import Disk, MergeOperator, Session, Store, Table, Tree


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
