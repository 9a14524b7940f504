"""What a program does wrong is an exception, and never the end of the interpreter."""

from __future__ import annotations

import array
import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import varvite
from conftest import USES, Refused, made
from varvite import Batch, Disk, Session, Store, Tree


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


def test_addresses_are_no_bytes(session: Session) -> None:
    table = session.create_table("t")
    for buffer in ((ctypes.py_object * 1)(ctypes.py_object("x")), (ctypes.c_void_p * 1)(5), (ctypes.POINTER(ctypes.c_int) * 1)()):
        with pytest.raises(TypeError, match="addresses"):
            table.insert([b"k"], [buffer])
        with pytest.raises(TypeError):
            table.insert([buffer], [b"v"])
    table.insert([b"k"], [(ctypes.c_uint16 * 2)(1, 2)])
    assert table[b"k"] == b"\1\0\2\0"


def test_many_paths_are_not_the_letters_of_one() -> None:
    tree = Tree()
    tree["a/b"] = b"1"
    with pytest.raises(TypeError, match="one path"):
        tree.find_many("a/b")
    assert tree.find_many(["a/b"]).to_list() == [b"1"]


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
