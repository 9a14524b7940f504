"""Batches by arrays of numpy, and answers that arrays are laid over."""

from __future__ import annotations

import array
from typing import Any

import pytest
import varvite
from varvite import Batch, Disk, Session, Tree


@pytest.fixture
def table() -> Any:
    with Session.create(Disk.memory()) as session:
        yield session.create_table("t", operator=varvite.MergeOperator.built_in("append"))


def test_rows_are_keys(table: Any) -> None:
    numpy = pytest.importorskip("numpy")
    keys = numpy.random.default_rng(1).integers(0, 256, (256, 34), dtype=numpy.uint8)
    values = numpy.arange(256, dtype=">u8").view(numpy.uint8).reshape(256, 8)
    table.insert(keys, values)
    assert table[keys[7].tobytes()] == (7).to_bytes(8)
    found = table.lookup(keys[::-1])
    offsets, data, mask = found.to_numpy()
    assert offsets.dtype == numpy.int64 and list(offsets[:3]) == [0, 8, 16]
    assert mask.dtype == bool and mask.all()
    assert (data.reshape(256, 8) == values[::-1]).all()
    assert not data.flags.owndata and not data.flags.writeable
    # A transposed or strided array is no less one.
    wide = numpy.zeros((256, 68), numpy.uint8)
    wide[:, ::2] = keys
    assert table.lookup(wide[:, ::2]).to_list() == table.lookup(keys).to_list()
    table.upsert(keys[:1], values[1:2])
    assert table[keys[0].tobytes()] == bytes(8) + (1).to_bytes(8)
    table.update(Batch().delete_many(keys[:200]).insert_many([b"a"], [b"b"]).upsert_many([b"a"], [b"c"]))
    assert table.view().count() == 57 and table[b"a"] == b"bc"
    table.delete(keys)
    assert table.lookup(keys).to_numpy()[2].sum() == 0


def test_arrays_that_are_no_rows_are_refused(table: Any) -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="has 1 dimensions"):
        table.lookup(numpy.zeros(34, numpy.uint8))
    with pytest.raises(TypeError, match="single bytes"):
        table.lookup(numpy.zeros((4, 4), numpy.uint64))
    assert len(table.lookup(numpy.zeros((0, 34), numpy.uint8))) == 0
    assert table.lookup(numpy.zeros((2, 0), numpy.uint8)).to_list() == [None, None]


def test_arrow(table: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    table.insert([b"a", b"c"], [b"1", b""])
    found = table.lookup([b"a", b"b", b"c"])
    wrapped = found.to_arrow()
    wrapped.validate(full=True)
    assert wrapped.to_pylist() == [b"1", None, b""] and wrapped.null_count == 1
    assert wrapped.buffers()[2].address == arrow.py_buffer(found.data).address
    keys = arrow.array([b"x", b"yy"], arrow.large_binary())
    _, offsets, data = keys.buffers()
    table.insert((memoryview(offsets).cast("q"), data), [b"8", b"9"])
    assert table[b"yy"] == b"9"


def test_answers_are_values_again(table: Any) -> None:
    table.insert([b"a", b"b"], [b"first", b"second"])
    table.insert([b"c", b"d"], table.lookup([b"b", b"a"]))
    assert list(table.range(b"c")) == [(b"c", b"second"), (b"d", b"first")]
    entries = table.range()
    table.insert(entries.values, entries.keys)
    assert table[b"first"] == b"d"
    table.delete(entries.keys)
    assert list(table) == [b"first", b"second"]
    with pytest.raises(ValueError, match="was not found"):
        table.insert([b"x"], table.lookup([b"nothing"]))
    table.insert((array.array("q", [0, 1, 3]), b"kll"), (array.array("i", [1, 2, 4]), b"-abbb"))
    assert (table[b"k"], table[b"ll"]) == (b"a", b"bb")


def test_values_are_a_sequence(table: Any) -> None:
    table.insert([b"a"], [b"1"])
    values = table.lookup([b"a", b"b"])
    assert (len(values), values[0], values[-1], list(values)) == (2, b"1", None, [b"1", None])
    assert repr(values) == "Values(2 items, 1 found, 1 bytes)"
    assert list(values.offsets) == [0, 1, 1] and list(values.found) == [True, False]
    for index in (2, -3, 2**62, -(2**62)):
        with pytest.raises(IndexError):
            values[index]
    entries = table.range()
    assert entries[0] == (b"a", b"1") and list(entries.keys) == [b"a"]


def test_names_of_accounts_in_rows() -> None:
    numpy = pytest.importorskip("numpy")
    names = numpy.frombuffer(b"".join(b"%08d" % it for it in range(1_000)), numpy.uint8).reshape(-1, 8)
    balances = numpy.arange(1_000, dtype=">u8").view(numpy.uint8).reshape(-1, 8)
    tree = Tree()
    tree.add_each("data/contracts", names, balances, "balance")
    assert tree["data/contracts/00000007/balance"] == (7).to_bytes(8)
    found = tree.find_each("data/contracts", names[::-1], "balance")
    assert (found.to_numpy()[1].reshape(-1, 8) == balances[::-1]).all()
    assert tree.length("data/contracts") == 1_000
    with pytest.raises(varvite.InvalidError, match="2 names and 1 values"):
        tree.add_each("a", [b"x", b"y"], [b"1"])
