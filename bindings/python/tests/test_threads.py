"""Threads: calls let others run, wait for each other without an end, and see whole states."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import varvite
from varvite import Batch, Disk, MergeOperator, Session, Store, Table


def together(*bodies: Callable[[], None]) -> None:
    """Runs all of them at once, and raises what one of them raised."""
    raised: list[BaseException] = []

    def run(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if raised:
        raise raised[0]


def test_readers_beside_a_writer_see_whole_batches() -> None:
    with Session.create(Disk.memory()) as session:
        table = session.create_table("t", write_buffer_bytes=1 << 14)
        keys = [b"%02d" % it for it in range(20)]
        done = threading.Event()

        def write() -> None:
            for number in range(400):
                table.insert(keys, [b"%060d" % number] * 20)
            done.set()

        def read() -> None:
            while not done.is_set():
                assert len(set(table.lookup(keys))) == 1
                with table.view() as view:
                    assert len({value for _, value in view.items()}) <= 1

        together(write, read, read)
        assert set(table.lookup(keys)) == {b"%060d" % 399}


def test_operators_of_several_threads() -> None:
    """Operators need the interpreter while their thread holds the table: who waits for that must not have it."""

    def join(older: bytes, newer: bytes) -> bytes:
        time.sleep(0)
        return (int.from_bytes(older) + int.from_bytes(newer)).to_bytes(8)

    with Session.create(Disk.memory()) as session:
        table = session.create_table("t", operator=MergeOperator("sum", join), write_buffer_bytes=2048)
        other = session.create_table("u", operator=MergeOperator("sum", join), write_buffer_bytes=2048)
        one = (1).to_bytes(8)

        def add() -> None:
            for number in range(150):
                table.upsert([b"%d" % (number % 7)], [one])
                table.get(b"3")

        def both() -> None:
            for _ in range(75):
                batch = Batch().upsert(b"0", one)
                session.update([(table, batch), (other, batch)])
                session.update([(other, batch), (table, batch)])

        together(add, add, both, both)
        total = sum(int.from_bytes(value) for _, value in table.items())
        assert total == 150 * 2 + 75 * 4
        assert other.get(b"0") == (75 * 4).to_bytes(8)


def test_closing_what_others_use() -> None:
    for _ in range(20):
        session = Session.create(Disk.memory())
        table = session.create_table("t")
        table.insert([b"%d" % it for it in range(100)], [b"v"] * 100)

        def use(table: Table = table) -> None:
            with pytest.raises(varvite.ClosedError):
                while True:
                    table.lookup([b"1", b"2"])
                    table.insert([b"1"], [b"w"])
                    sum(1 for _ in table.items())

        def close(session: Session = session, table: Table = table) -> None:
            time.sleep(0.005)
            table.close()
            session.close()

        together(use, use, close)


def test_other_threads_run_during_a_call(tmp_path: Path) -> None:
    """A long call lets the interpreter go: others take many steps meanwhile, not one."""
    with Store.create(Disk.memory()) as store:
        tree = store.empty_tree()
        tree.add_each("a", [b"%d" % it for it in range(60_000)], [b"v"] * 60_000)
        steps, done = 0, threading.Event()

        def count() -> None:
            nonlocal steps
            while not done.is_set():
                steps += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        before = steps
        store.commit(tree)
        during = steps - before
        done.set()
        thread.join()
        assert during > 20


def test_one_iterator_of_several_threads() -> None:
    with Session.create(Disk.memory()) as session:
        table = session.create_table("t")
        table.insert([b"%05d" % it for it in range(3_000)], [b"v"] * 3_000)
        items = table.items()
        seen: list[bytes] = []
        together(*[lambda: seen.extend(key for key, _ in items)] * 4)
        assert sorted(seen) == [b"%05d" % it for it in range(3_000)]
