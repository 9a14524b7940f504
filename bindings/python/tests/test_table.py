"""The table against a model: a sorted dictionary, as `engine/tests/it/model/table.rs` is one; and a story of each part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import varvite
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from varvite import Batch, Disk, Excluded, Included, MergeOperator, Session, Table

KEYS = st.binary(min_size=1, max_size=3) | st.sampled_from([b"key %02d" % it for it in range(40)])
VALUES = st.binary(max_size=12) | st.binary(min_size=90, max_size=200)
KINDS = ["insert", "insert", "delete", "upsert", "upsert", "delete_range", "delete_prefix"]
# Of a range the second is where it ends.
OPERATIONS = st.lists(st.tuples(st.sampled_from(KINDS), KEYS, VALUES | KEYS), min_size=1, max_size=30)

Model = dict[bytes, bytes]

# How long an example takes says nothing on a machine that does other things too.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
EXAMPLES = int(os.environ.get("VARVITE_EXAMPLES", "40"))


def apply(model: Model, operations: list[tuple[str, bytes, bytes]]) -> None:
    for kind, key, value in operations:
        if kind == "insert":
            model[key] = value
        elif kind == "delete":
            model.pop(key, None)
        elif kind.startswith("delete_"):
            for gone in [it for it in model if (key <= it < value if kind == "delete_range" else it.startswith(key))]:
                del model[gone]
        else:
            model[key] = model.get(key, b"") + value


def between(model: Model, start: Any, stop: Any) -> list[tuple[bytes, bytes]]:
    def inside(key: bytes) -> Any:
        first, last = start and bytes(start.key), stop and bytes(stop.key)
        after = start is None or (key > first if isinstance(start, Excluded) else key >= first)
        return after and (stop is None or (key <= last if isinstance(stop, Included) else key < last))

    return [(key, model[key]) for key in sorted(model) if inside(key)]


BOUNDS = st.none() | KEYS.map(Included) | KEYS.map(Excluded)


class Machine(RuleBasedStateMachine):
    """Tables of one session, their views, their duplicates, unions and snapshots, each beside its model."""

    tables = Bundle("tables")
    views = Bundle("views")

    @initialize()
    def begin(self) -> None:
        self.disk = Disk.memory(7)
        self.session = Session.create(self.disk, seed=5)
        self.append = MergeOperator("tests.append", lambda older, newer: older + newer)
        self.saved: dict[str, Model] = {}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    @rule(target=tables, ratio=st.integers(2, 4))
    def create(self, ratio: int) -> tuple[Table, Model]:
        options: Any = {"write_buffer_bytes": 512, "size_ratio": ratio, "blob_min_bytes": 100}
        table = self.session.create_table(self.name(), operator=self.append, **options)
        return table, {}

    @rule(it=tables, operations=OPERATIONS)
    def update(self, it: tuple[Table, Model], operations: list[tuple[str, bytes, bytes]]) -> None:
        batch = Batch()
        for kind, key, value in operations:
            getattr(batch, kind)(key, *[] if kind in ("delete", "delete_prefix") else [value])
        empty = sum(kind == "delete_range" and key >= value for kind, key, value in operations)
        assert len(batch) == len(operations) - empty
        it[0].update(batch)
        apply(it[1], operations)

    @rule(one=tables, two=tables, operations=OPERATIONS)
    def update_both(self, one: Any, two: Any, operations: Any) -> None:
        batch = Batch()
        for _, key, value in operations:
            batch.insert(key, value)
        if one[0] is two[0]:
            with pytest.raises(varvite.InvalidError, match="given twice"):
                self.session.update([(one[0], batch), (two[0], batch)])
            return
        self.session.update([(one[0], batch), (two[0], batch)])
        for it in (one, two):
            apply(it[1], [("insert", key, value) for _, key, value in operations])

    @rule(it=tables, start=BOUNDS, stop=BOUNDS)
    def delete_range(self, it: tuple[Table, Model], start: Any, stop: Any) -> None:
        gone = between(it[1], start, stop)
        try:
            it[0].delete_range(start, stop)
        except varvite.InvalidError:
            assert not gone
            return
        for key, _ in gone:
            del it[1][key]

    @rule(it=tables | views, keys=st.lists(KEYS, max_size=20))
    def lookup(self, it: Any, keys: list[bytes]) -> None:
        expected = [it[1].get(key) for key in keys]
        assert it[0].lookup(keys).to_list() == expected
        assert [None if value is None else value.read() for value in it[0].find(keys)] == expected
        for key, value in zip(keys, expected, strict=True):
            assert it[0].get(key) == value
            assert (key in it[0]) == (value is not None)

    @rule(it=tables | views, start=BOUNDS, stop=BOUNDS)
    def ranges(self, it: Any, start: Any, stop: Any) -> None:
        expected = between(it[1], start, stop)
        try:
            assert list(it[0].range(start, stop)) == expected
            assert list(it[0].items(start, stop)) == expected
            assert list(it[0].keys(start, stop)) == [key for key, _ in expected]
        except varvite.InvalidError:
            assert not expected

    @rule(it=tables | views, start=BOUNDS, stop=BOUNDS, ends=st.lists(st.booleans(), max_size=60), only=st.booleans())
    def both_ends(self, it: Any, start: Any, stop: Any, ends: list[bool], only: bool) -> None:
        expected: list[Any] = [entry[0] if only else entry for entry in between(it[1], start, stop)]
        items = it[0].keys(start, stop) if only else it[0].items(start, stop)
        backwards = reversed(items)
        for is_back in ends:
            found = next(backwards if is_back else items, None)
            assert found == (expected.pop(-1 if is_back else 0) if expected else None)
        assert list(items) == expected
        assert next(backwards, None) is None

    @rule(it=tables | views, prefix=st.binary(max_size=2) | st.just(b"key 1"))
    def prefixes(self, it: Any, prefix: bytes) -> None:
        expected = [entry for entry in sorted(it[1].items()) if entry[0].startswith(prefix)]
        assert list(it[0].items(prefix=prefix)) == expected
        assert list(reversed(it[0].keys(prefix=prefix))) == [key for key, _ in expected[::-1]]

    @rule(it=tables | views, seek=KEYS)
    def cursor(self, it: Any, seek: bytes) -> None:
        expected = sorted(it[1].items())
        with it[0].cursor() as cursor:
            assert list(cursor.next_many(1_000)) == expected
            assert cursor.next() is None
            backwards = []
            while (key := cursor.previous_key()) is not None:
                backwards.append((key, cursor.value()))
            assert backwards == expected[::-1]
            cursor.seek(seek)
            assert cursor.next() == next((entry for entry in expected if entry[0] >= seek), None)
            cursor.seek_last()
            assert cursor.previous() == (expected[-1] if expected else None)

    @rule(target=views, it=tables)
    def view(self, it: tuple[Table, Model]) -> Any:
        return it[0].view(), dict(it[1])

    @rule(target=tables, it=tables)
    def duplicate(self, it: tuple[Table, Model]) -> tuple[Table, Model]:
        return it[0].duplicate(self.name()), dict(it[1])

    @rule(target=tables, given=st.lists(tables, min_size=1, max_size=3), incremental=st.booleans())
    def union(self, given: list[tuple[Table, Model]], incremental: bool) -> tuple[Table, Model]:
        model: Model = {}
        for _, other in reversed(given):
            for key, value in other.items():
                model[key] = model.get(key, b"") + value
        table = self.session.union(self.name(), [it[0] for it in given], incremental=incremental)
        return table, model

    @rule(it=tables, credits=st.integers(0, 5_000))
    def work(self, it: tuple[Table, Model], credits: int) -> None:
        it[0].work(credits)
        it[0].supply_union_credits(credits)

    @rule(it=tables)
    def save(self, it: tuple[Table, Model]) -> None:
        name = it[0].name
        if name in self.saved:
            self.session.delete_snapshot(name)
        self.session.save_snapshot(name, [it[0]], label="tests", payload=bytearray(b"payload"))
        self.saved[name] = dict(it[1])

    @rule(target=tables, data=st.data())
    def open(self, data: st.DataObject) -> tuple[Table, Model]:
        if not self.saved:
            return self.session.create_table(self.name(), operator=self.append), {}
        name = data.draw(st.sampled_from(sorted(self.saved)))
        with self.session.open_snapshot(name, label="tests", operators=[self.append], verify="full") as snapshot:
            assert (snapshot.payload, snapshot.tables) == (b"payload", [name])
            return snapshot.take(name), dict(self.saved[name])

    @rule(it=consumes(tables))
    def close(self, it: tuple[Table, Model]) -> None:
        it[0].close()

    @invariant()
    def snapshots_are_listed(self) -> None:
        if hasattr(self, "saved"):
            assert {it.name for it in self.session.snapshots()} == set(self.saved)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            assert varvite.check(self.disk) == []


Machine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=QUIET, derandomize=True
)
TestTable = Machine.TestCase


def test_live_tables_outlive_their_session(tmp_path: Path) -> None:
    joined = MergeOperator("tests.append", lambda older, newer: older + newer)
    with Session.create(tmp_path, log="synced") as session:
        for name in ("a", "b"):
            session.create_table(name, operator=joined).upsert([b"k"], [name.encode()])
        assert session.live_tables() == ["a", "b"]
    with Session.open(tmp_path, log="written", memory_bytes=8 << 20, direct=True) as session:
        one, two = session.open_all(operators=[joined])
        assert (one.is_live, one.operator, two[b"k"]) == (True, "tests.append", b"b")
        with pytest.raises(varvite.LockedError):
            session.open_table("a", operators=[joined])
        duplicate = one.duplicate("c")
        assert not duplicate.is_live
        session.publish(duplicate)
        assert duplicate.is_live
        two.close()
        session.delete_table("b")
        assert session.live_tables() == ["a", "c"]
        assert session.warnings == [] and not session.is_poisoned
        session.pause_merges(1 << 20)
        assert session.merges_are_paused
        session.resume_merges()
    with Session.open(tmp_path, log="written") as session, session.open_table("a", operators=[joined]) as table:
        assert table[b"k"] == b"a"


def test_snapshots_travel(tmp_path: Path) -> None:
    with Session.create(tmp_path / "one") as session:
        table = session.create_table("t", preset="utxo", memory_bytes=1 << 20)
        table.insert([b"%d" % it for it in range(500)], [b"v" * 40] * 500)
        session.save_snapshot("s", [table], label="mark")
        moved = session.export_snapshot("s", tmp_path / "two", verify="full")
        assert moved.segments == 1 and moved.bytes > 20_000
    with Session.create(tmp_path / "three") as session:
        session.import_snapshot(tmp_path / "two", "s", "renamed")
        (info,) = session.snapshots()
        assert (info.name, info.label, info.tables, info.damage) == ("renamed", "mark", ["t"], None)
        assert "renamed" in repr(info)
        with pytest.raises(varvite.InvalidError):
            session.open_snapshot("renamed", label="other")
        with session.open_snapshot("renamed") as snapshot:
            assert snapshot.take("t").view().count() == 500


def test_large_values_and_loads() -> None:
    with Session.create(Disk.memory(), cache=varvite.Cache(8 << 20)) as session:
        with session.write_value() as writer:
            for _ in range(5):
                writer.write(b"x" * 100_000)
            value = writer.finish()
            with pytest.raises(varvite.ClosedError):
                writer.write(b"more")
        loader = session.load_table("t", sort_bytes=1 << 20)
        loader.push_many([b"b", b"a"], [b"2", b"1"])
        assert loader.count == 2
        with pytest.raises(varvite.InvalidError):
            session.load_table("u").push_many([b"b", b"a"], [b"2", b"1"])
        table = loader.finish()
        table.update(Batch().insert_value(b"large", value))
        found = table.find([b"large", b"nothing"])
        assert found[1] is None and found[0] is not None
        assert len(found[0]) == 500_000
        assert (found[0].read_at(499_998, 10), found[0].read_at(10**9, 10)) == (b"xx", b"")
        assert session.read_values([found[0]]).to_list() == [b"x" * 500_000]
        assert list(table) == [b"a", b"b", b"large"]
        with pytest.raises(KeyError):
            table[b"nothing"]
        assert table.get(b"nothing", 5) == 5


def test_statistics_and_observers() -> None:
    told: list[tuple[str, int, int]] = []
    with Session.create(Disk.memory(), observer=lambda *it: told.append(it)) as session:
        table = session.create_table("t", write_buffer_bytes=4096)
        for first in range(0, 2_000, 100):
            keys = [b"%06d" % it for it in range(first, first + 100)]
            table.insert(keys, [b"value"] * 100)
        table.lookup([b"000001", b"nothing"])
        assert table.get(b"000001") == b"value"
        assert len(list(table.range(b"000001", b"000004"))) == 3
        stats = table.stats()
        assert stats.physical_entries == 2_000
        assert stats.logical_entries_min <= 2_000 <= stats.logical_entries_max
        assert sum(level.entries for level in stats.levels) <= 2_000
        assert stats == table.stats() and stats.name == "t"
        assert session.stats().keys_looked_up == 3
        assert session.stats().written_bytes > 0
        # The table that was made is told as another operation.
        assert {name for name, *_ in told} == {"update", "lookup", "get", "range", "merge", "other"}
        assert [count for name, _, count in told if name == "lookup"] == [2]
        assert [count for name, _, count in told if name == "get"] == [1]


def test_merges_are_helped_by_a_pool() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, Session.create(Disk.memory(), executor=pool.submit) as session:
        table = session.create_table("t", write_buffer_bytes=1 << 14)
        for number in range(3_000):
            table.insert([b"%06d" % (number * 7919 % 3_000)], [b"v" * 60])
        assert table.view().count() == 3_000


def test_a_prefix_and_bounds_are_one_too_many() -> None:
    with Session.create(Disk.memory()) as session:
        table = session.create_table("t")
        for call in (table.items, table.view().keys):
            with pytest.raises(varvite.InvalidError, match="a prefix is a range by itself"):
                call(b"a", prefix=b"b")


def test_backups_and_followers(tmp_path: Path) -> None:
    joined = MergeOperator("tests.append", lambda older, newer: older + newer)
    with Session.create(tmp_path / "s", log="synced", log_file_bytes=1 << 12, max_open_files=16) as session:
        table = session.create_table("t", operator=joined, write_buffer_bytes=1 << 12)
        for it in range(0, 300, 30):  # with a checkpoint now and then, which names segments
            table.insert([b"%03d" % key for key in range(it, it + 30)], [b"v" * 40] * 30)
        with pytest.raises(varvite.InvalidError, match="open for writing"):
            session.follow()
        with Session.open_read_only(tmp_path / "s") as reader, reader.follow(operators=[joined]) as follower:
            before = follower.view("t")
            assert follower.tables == ["t"] and not follower.reload()
            table.upsert([b"007"], [b"!"])
            session.create_table("u").insert([b"a"], [b"1"])
            assert follower.reload() and follower.tables == ["t", "u"]
            assert (before[b"007"], follower.view("t")[b"007"]) == (b"v" * 40, b"v" * 40 + b"!")
            with pytest.raises(varvite.MissingError):
                follower.view("nobody")
        first = session.backup(tmp_path / "b")
        assert (first.tables, first.kept.segments) == (2, 0) and first.log_records > 0
        table.upsert([b"007"], [b"!"])
        second = session.backup(tmp_path / "b", verify="full")
        assert second.kept.segments == first.moved.segments > 0
        table.delete_range()
        with pytest.raises((varvite.ExistsError, varvite.InvalidError)):
            session.backup(tmp_path)
    with Session.open(tmp_path / "b", log="synced") as session, session.open_table("t", operators=[joined]) as table:
        assert table.view().count() == 300 and table[b"007"] == b"v" * 40 + b"!!"
    with Session.create(Disk.memory()) as session, pytest.raises(varvite.InvalidError):
        session.backup(Disk.memory())


def test_repairs(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s", log="written", log_file_bytes=1 << 12) as session:
        table = session.create_table("t", write_buffer_bytes=1 << 12)
        for first in range(0, 600, 100):
            table.insert([b"%03d" % it for it in range(first, first + 100)], [b"v" * 40] * 100)
        session.save_snapshot("sound", [session.create_table("empty")])
        session.save_snapshot("hurt", [table])
    hurt = max((tmp_path / "s").rglob("*.segment*"), key=lambda it: it.stat().st_size)
    data = bytearray(hurt.read_bytes())
    data[100] ^= 0xFF
    hurt.write_bytes(data)
    (tmp_path / "s" / "session").unlink()
    found = varvite.repair(tmp_path / "s", tmp_path / "whole")
    assert found.session_was_lost and found.snapshots == ["sound"] and found.losses
    assert {it.file for it in found.losses} == {hurt.relative_to(tmp_path / "s").as_posix()}
    found = varvite.repair(tmp_path / "s", tmp_path / "most", skip_damaged=True, seed=7)
    assert found.snapshots == ["hurt", "sound"]
    (loss,) = [it for it in found.losses if it.keys]
    assert loss.keys and loss.keys[0] <= loss.keys[1] and 0 < loss.entries < 600
    with Session.open(tmp_path / "most", log="written") as session:
        assert session.snapshots()[0].damage is None
    assert varvite.check(tmp_path / "most") == []
    with pytest.raises(varvite.MissingError):
        varvite.repair(Disk.memory(), Disk.memory())
