"""What Python's calls cost over Rust's: processor time of the same work on two equal stores in memory, by turns.

`bench/run` builds what it needs. The Rust side is `examples/beside.rs`, a process of its own that does a round when it is asked. What a round looks at is made
before it on both sides, and not counted. Shown is the lower quartile of the rounds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

if importlib.util.find_spec("varvite") is None:
    sys.exit("varvite is not there: put bindings/python/python with the built extension in PYTHONPATH")
import varvite

BATCH = 256
BATCHES = 100


def mix(number: Any) -> Any:
    """Numbers that look unrelated. Source: Steele et al. 2014 (SplitMix64)."""
    z = numpy.asarray(number, numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def keys_of(numbers: Any) -> Any:
    parts = mix(numbers[:, None] * numpy.uint64(8) + numpy.arange(5, dtype=numpy.uint64))
    return numpy.ascontiguousarray(parts.astype("<u8").view(numpy.uint8)[:, :34])


def names_of(numbers: Any) -> Any:
    names = b"".join(b"%016x" % it for it in mix(numbers).tolist())
    return numpy.frombuffer(names, numpy.uint8).reshape(-1, 16)


def pick(number: int, of: int) -> Any:
    batches = numpy.uint64(number * BATCHES) + numpy.arange(BATCHES, dtype=numpy.uint64)
    at = batches[:, None] * numpy.uint64(1_000) + numpy.arange(BATCH, dtype=numpy.uint64)
    return (mix(at) % numpy.uint64(of)).ravel()


class Side:
    """Python's side."""

    def __init__(self, entries: int, accounts: int) -> None:
        self.entries, self.accounts = entries, accounts
        self.session = varvite.Session.create(varvite.Disk.memory(1))
        self.table = self.session.create_table("t", preset="utxo")
        self.values: Any = numpy.full((BATCH, 60), 7, numpy.uint8)
        for first in range(0, entries, BATCH):
            keys = keys_of(numpy.arange(first, min(first + BATCH, entries), dtype=numpy.uint64))
            self.table.insert(keys, self.values[: len(keys)])
        self.store = varvite.Store.create(varvite.Disk.memory(1))
        tree = self.store.empty_tree()
        numbers: Any = numpy.arange(accounts, dtype=numpy.uint64)
        balances: Any = numbers.astype(">u8").view(numpy.uint8).reshape(-1, 8)
        tree.add_each("data/contracts", names_of(numbers), balances, "balance")
        self.tree = self.store.checkout(self.store.commit(tree))

    def run(self, task: str, number: int) -> int:
        of = self.accounts if "find" in task or task == "commit" else self.entries
        picked = pick(number, of)
        keys = [keys_of(it) for it in picked.reshape(-1, BATCH)]
        names = [names_of(it) for it in picked.reshape(-1, BATCH)]
        single = [it.tobytes() for part in keys for it in part] if task == "get" else []
        paths = [(b"data", b"contracts", it.tobytes(), b"balance") for part in names for it in part]
        return self.time(getattr(self, task), number, keys, names, single, paths)

    @staticmethod
    def time(task: Callable[..., None], *arguments: Any) -> int:
        start = time.process_time_ns()
        task(*arguments)
        return time.process_time_ns() - start

    def lookup(self, _: int, keys: Any, *__: Any) -> None:
        for batch in keys:
            _offsets, _data, found = self.table.lookup(batch).to_numpy()
            assert found.all()

    def update(self, _: int, keys: Any, *__: Any) -> None:
        for batch in keys:
            self.table.insert(batch, self.values)

    def get(self, _: int, __: Any, ___: Any, single: Any, *____: Any) -> None:
        get = self.table.get
        for key in single:
            assert get(key) is not None

    def find_each(self, _: int, __: Any, names: Any, *___: Any) -> None:
        for batch in names:
            _offsets, _data, found = self.tree.find_each("data/contracts", batch, "balance").to_numpy()
            assert found.all()

    def find(self, _: int, __: Any, ___: Any, ____: Any, paths: Any) -> None:
        find = self.tree.find
        for path in paths:
            assert find(path) is not None

    def commit(self, number: int, _: Any, names: Any, *__: Any) -> None:
        values = numpy.tile(numpy.frombuffer(number.to_bytes(8), numpy.uint8), (BATCH, 1))
        for batch in names[:10]:
            self.tree.add_each("data/contracts", batch, values, "balance")
        self.store.commit(self.tree)


TASKS = [
    ("lookup", "a key of a lookup of 256", BATCH * BATCHES),
    ("update", "an operation of an update of 256", BATCH * BATCHES),
    ("get", "a get", BATCH * BATCHES),
    ("find_each", "a find of 256 in one call", BATCH * BATCHES),
    ("find", "a find in a call of its own", BATCH * BATCHES),
    ("commit", "a change of a commit of 2,560", BATCH * 10),
]


def main(target: str, entries: int = 1_000_000, accounts: int = 100_000, rounds: int = 41) -> None:
    program = [str(Path(target, "examples", "beside")), str(entries), str(accounts)]
    rust = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert rust.stdin and rust.stdout
    python = Side(entries, accounts)
    assert rust.stdout.readline() == "ready\n"

    def ask(task: str, number: int) -> int:
        assert rust.stdin and rust.stdout
        rust.stdin.write(f"{task} {number}\n")
        rust.stdin.flush()
        return int(rust.stdout.readline())

    print(f"{'processor time of':<34} {'Rust':>12} {'Python':>12} {'more':>10} {'overhead':>9}")
    for task, what, count in TASKS:
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(1, rounds + 1):
            for side in (0, 1) if number % 2 else (1, 0):
                spent = python.run(task, number) if side else ask(task, number)
                times[side].append(spent / count)
        one, two = (sorted(it)[rounds // 4] for it in times)
        print(f"{what:<34} {one:>9.1f} ns {two:>9.1f} ns {two - one:>7.1f} ns {(two / one - 1) * 100:>+7.1f} %", flush=True)
    rust.stdin.close()
    rust.wait()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
