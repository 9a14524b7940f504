"""Tables behind one handle, transactions over them, logs that are synced by hand, scrubs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import varvite
from varvite import Batch, Disk, MergeOperator, Session, Store, Tables, Tree


def shared(session: Session) -> Tables:
    return session.share([session.create_table("utxo"), session.create_table("stake", operator=sum_operator())])


def sum_operator() -> MergeOperator:
    return MergeOperator.built_in("add-u64")


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_a_transaction_reads_what_it_wrote_and_stands_whole(session: Session) -> None:
    tables = shared(session)
    assert tables.names == ["stake", "utxo"]
    with tables.begin() as block:
        block.insert("utxo", [b"a", b"b"], [b"1", b"2"])
        block.upsert("stake", [b"pool"], [number(5)])
        assert block.get("utxo", b"a") == b"1" and block.get("utxo", b"z", b"none") == b"none"
        before = block.view("utxo")
        block.delete("utxo", [b"a"])
        block.update("stake", Batch().upsert(b"pool", number(7)))
        assert block.lookup("utxo", [b"a", b"b"]).to_list() == [None, b"2"]
        assert before[b"a"] == b"1" and block.get("stake", b"pool") == number(12)
        assert tables.get("utxo", b"b") is None  # nobody else sees it yet
        assert tables.try_begin() is None
    views = tables.views()
    assert dict(views["utxo"].items()) == {b"b": b"2"} and views["stake"][b"pool"] == number(12)
    assert tables.view("utxo")[b"b"] == b"2" and tables.lookup("utxo", [b"b"]).to_list() == [b"2"]

    with pytest.raises(ZeroDivisionError), tables.begin() as block:
        block.insert("utxo", [b"c"], [b"3"])
        assert block.get("utxo", b"c") == b"3"
        print(1 / 0)
    assert tables.get("utxo", b"c") is None
    forgotten = tables.begin()
    forgotten.insert("utxo", [b"c"], [b"3"])
    del forgotten
    tables.commit({"utxo": Batch().insert(b"d", b"4"), "stake": Batch().upsert(b"pool", number(1))})
    assert tables.get("utxo", b"c") is None and tables.get("stake", b"pool") == number(13)

    tables.save_snapshot("both", label="l", payload=b"p")
    assert session.open_snapshot("both").tables == ["stake", "utxo"]
    utxo = tables.remove("utxo")
    assert utxo[b"d"] == b"4" and tables.names == ["stake"]
    with pytest.raises(varvite.ExistsError, match="stake already"):
        session.create_table("stake")
    tables.add(utxo)
    assert utxo.closed and tables.get("utxo", b"d") == b"4" and tables.work(1 << 20) == 0


def test_nobody_waits_for_ever_for_a_transaction_that_nobody_uses(session: Session) -> None:
    tables = shared(session)
    assert tables.patience == 10
    tables.patience = 0.02
    block = tables.begin()
    for action in (
        tables.begin,
        lambda: tables.commit({"utxo": Batch().insert(b"a", b"1")}),
        lambda: tables.remove("utxo"),
        lambda: tables.work(1),
        lambda: tables.save_snapshot("s"),
        lambda: tables.add(session.create_table("new")),
    ):
        with pytest.raises(varvite.LockedError, match="a transaction is open"):
            action()
    tables.patience = None
    assert tables.patience is None
    with pytest.raises(varvite.InvalidError):
        tables.patience = -1
    block.rollback()
    block.rollback()
    with pytest.raises(varvite.ClosedError):
        block.commit()
    with pytest.raises(varvite.ClosedError):
        block.get("utxo", b"a")
    with pytest.raises(varvite.MissingError):
        tables.get("other", b"a")
    with tables.begin() as block, pytest.raises(varvite.MissingError):
        block.insert("other", [b"a"], [b"1"])


def test_a_transaction_is_of_no_thread(session: Session) -> None:
    """A task may go from thread to thread, and a thread from task to task."""
    tables = shared(session)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        block = tables.begin()
        pool.submit(block.insert, "utxo", [b"a"], [b"1"]).result()

        def commit_later() -> None:
            time.sleep(0.1)
            block.commit()

        committed = pool.submit(commit_later)
        tables.commit({"utxo": Batch().insert(b"b", b"2")})  # of the thread that began the other one, which it waits for
        committed.result()
        assert tables.lookup("utxo", [b"a", b"b"]).to_list() == [b"1", b"2"]

        async def task(number: int) -> None:
            while True:
                try:
                    block = await asyncio.to_thread(tables.begin)
                    break
                except varvite.LockedError:
                    await asyncio.sleep(0.001)
            value = int.from_bytes(await asyncio.to_thread(block.get, "utxo", b"n", b""), "little") + number
            await asyncio.sleep(0.001)
            block.insert("utxo", [b"n"], [value.to_bytes(8, "little")])
            await asyncio.to_thread(block.commit)

        async def all_tasks() -> None:
            await asyncio.gather(*(task(number) for number in range(20)))

        tables.patience = 0  # no thread of the runtime waits for a task
        asyncio.run(all_tasks())
        assert tables.get("utxo", b"n") == number(sum(range(20)))


def test_a_callback_of_a_store_in_use_writes_when_nobody_else_does(session: Session) -> None:
    tables = shared(session)
    with varvite.Store.create(Disk.memory()) as store:
        tree = store.empty_tree()
        tree["a"] = b"0"
        base = store.commit(tree)
        sides = []
        for value in (b"1", b"2"):
            tree = store.checkout(base)
            tree["a"] = value
            sides.append(store.commit(tree, parents=[base]))

        def free(*_: object) -> bytes:
            tables.commit({"utxo": Batch().insert(b"a", b"1")})
            with tables.begin() as block:
                block.insert("utxo", [b"b"], [b"2"])
            return b"joined"

        def taken(*_: object) -> bytes:
            tables.commit({"utxo": Batch().insert(b"a", b"3")})
            return b"joined"

        store.merge_commits(sides[0], sides[1], free)
        assert tables.lookup("utxo", [b"a", b"b"]).to_list() == [b"1", b"2"]
        # Who has the transaction may be waiting for the store.
        with tables.begin(), pytest.raises(varvite.LockedError, match="return first"):
            store.merge_commits(sides[0], sides[1], taken)


def test_refused_tables_stay_open(tmp_path: Path, session: Session) -> None:
    with Session.create(Disk.memory()) as other:
        foreign, own, last = other.create_table("f"), session.create_table("o"), session.create_table("l")
        with pytest.raises(varvite.InvalidError, match="another session"):
            session.share([own, foreign, last])
        tables = session.share([session.create_table("t")])
        with pytest.raises(varvite.InvalidError, match="another session"):
            tables.add(foreign)
        for table, name in ((own, "o"), (foreign, "f"), (last, "l")):
            table.insert([b"k"], [b"v"])
            assert table.name == name and table[b"k"] == b"v" and not table.closed
        tables.add(own)
        assert own.closed and tables.get("o", b"k") == b"v"


def test_who_waits_while_a_handle_is_closed_is_told(session: Session) -> None:
    tables = shared(session)
    block = tables.begin()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        actions: list[Callable[[], object]] = [
            lambda: tables.commit({"utxo": Batch().insert(b"a", b"1")}),
            tables.begin,
            lambda: tables.work(1),
            lambda: tables.remove("utxo"),
        ]
        waiting = [pool.submit(action) for action in actions]
        time.sleep(0.1)
        tables.close()
        for it in waiting:
            with pytest.raises(varvite.ClosedError):
                it.result(10)
    block.insert("utxo", [b"a"], [b"2"])
    block.commit()
    # And of a session beneath one.
    tables = session.share([session.create_table("t")])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        def write() -> None:
            with pytest.raises(varvite.ClosedError):
                while True:
                    with tables.begin() as block:
                        block.insert("t", [b"k"], [b"v"])
                        block.get("t", b"k")

        writers = [pool.submit(write) for _ in range(4)]
        time.sleep(0.05)
        session.close()
        for writer in writers:
            writer.result(10)


def interrupted_within_a_second(action: Callable[[], object]) -> None:
    # Whoever starts the tests in the background may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        action()
    assert 0.1 < time.monotonic() - began < 1.2
    timer.join()


def test_waits_are_interrupted(session: Session) -> None:
    tables = shared(session)
    with tables.begin() as block:
        interrupted_within_a_second(tables.begin)
        interrupted_within_a_second(lambda: tables.commit({"utxo": Batch().insert(b"a", b"1")}))
        interrupted_within_a_second(lambda: tables.save_snapshot("s"))
        block.insert("utxo", [b"b"], [b"2"])
    assert tables.get("utxo", b"a") is None and tables.get("utxo", b"b") == b"2"

    # For an object that a call on another thread has.
    may_end, has_it = threading.Event(), threading.Event()

    def join(older: bytes, newer: bytes) -> bytes:
        has_it.set()
        may_end.wait(60)
        return newer

    table = session.create_table("t", operator=MergeOperator("tests.waits", join))
    table.insert([b"k"], [b"1"])
    thread = threading.Thread(target=lambda: table.upsert([b"k"], [b"2"]))
    thread.start()
    assert has_it.wait(60)
    try:
        interrupted_within_a_second(lambda: table.insert([b"k"], [b"3"]))
        interrupted_within_a_second(table.close)
    finally:
        may_end.set()
        thread.join()
    assert table[b"k"] == b"2"


def test_a_handler_may_use_what_is_waited_for(session: Session) -> None:
    tables = shared(session)
    block = tables.begin()
    done: list[bool] = []

    def handler(_number: int, _frame: object) -> None:
        block.commit()
        other = threading.Thread(target=lambda: tables.commit({"utxo": Batch().insert(b"t", b"1")}))
        other.start()
        other.join(20)
        tables.commit({"utxo": Batch().insert(b"h", b"1")})
        done.append(not other.is_alive())

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        tables.commit({"utxo": Batch().insert(b"m", b"1")})
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert done == [True]
    assert [tables.get("utxo", key) for key in (b"m", b"t", b"h")] == [b"1"] * 3


def handled_in_the_wait(busy: Callable[[], object], call: Callable[[], object], handler: Callable[[], object]) -> None:
    """`call` waits for what `busy` has on another thread; a handler that uses what `call` may have is not kept waiting."""
    seen: list[bool] = []
    thread = threading.Thread(target=busy)

    def handle(_number: int, _frame: object) -> None:
        seen.append(thread.is_alive())
        handler()

    def hangs(_number: int, _frame: object) -> None:
        raise TimeoutError("the handler waits for its own thread")

    before = [signal.signal(signal.SIGUSR1, handle), signal.signal(signal.SIGALRM, hangs)]
    signal.setitimer(signal.ITIMER_REAL, 30)
    timer = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        thread.start()
        time.sleep(0.05)
        timer.start()
        call()
    finally:
        timer.join()
        thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGALRM, before[1])
    assert seen == [True]


def test_a_handler_may_use_what_a_call_of_two_objects_has() -> None:
    names = [b"%08d" % it for it in range(500_000)]

    def case(act: Callable[[Store, Tree], object], handler: Callable[[Store], object]) -> None:
        with Store.create(Disk.memory()) as store:
            tree = store.empty_tree()
            handled_in_the_wait(
                lambda: tree.add_each("long", names, names), lambda: act(store, tree), lambda: handler(store)
            )

    case(lambda store, tree: store.commit(tree), lambda store: store.last_commit())
    case(lambda store, tree: store.hash(tree), lambda store: store.checkpoint())


def test_a_handler_waits_for_a_call_of_several_tables(session: Session) -> None:
    may_end, has_it = threading.Event(), threading.Event()

    def join(older: bytes, newer: bytes) -> bytes:
        has_it.set()
        may_end.wait(60)
        return newer

    operator = MergeOperator("tests.waits", join)
    tables = [session.create_table(name, operator=operator) for name in ("a", "b")]
    for it in tables:
        it.insert([b"k"], [b"1"])
    done: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: done.append(sum(it.get(b"k") == b"1" for it in tables)))
    try:
        # Whichever of them a call locks first.
        for busy in tables:
            may_end.clear()
            has_it.clear()
            done.clear()
            thread = threading.Thread(target=busy.upsert, args=([b"k"], [b"1"]))
            thread.start()
            assert has_it.wait(60)
            timers = [
                threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGUSR1)),
                threading.Timer(0.6, may_end.set),
            ]
            for timer in timers:
                timer.start()
            session.update([(it, Batch().insert(b"other", b"2")) for it in tables])
            for timer in timers:
                timer.join()
            thread.join()
            assert done == [2]
    finally:
        may_end.set()
        signal.signal(signal.SIGUSR1, before)


def test_threads_add_up_and_see_whole_transactions(session: Session) -> None:
    tables = session.share([session.create_table("a"), session.create_table("b")])
    failed: list[BaseException] = []

    def writer() -> None:
        try:
            for _ in range(50):
                with tables.begin() as block:
                    value = int.from_bytes(block.get("a", b"n") or b"", "little") + 1
                    for name in ("a", "b"):
                        block.insert(name, [b"n"], [number(value)])
        except BaseException as error:
            failed.append(error)

    def reader() -> None:
        try:
            while any(it.is_alive() for it in writers):
                views = tables.views()
                assert views["a"].get(b"n") == views["b"].get(b"n")
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=writer) for _ in range(4)]
    for it in writers:
        it.start()
    watcher = threading.Thread(target=reader)
    watcher.start()
    for it in [*writers, watcher]:
        it.join()
    assert not failed and tables.get("b", b"n") == number(200)


def test_shared_handles_are_closed_and_misused(session: Session) -> None:
    a = session.create_table("a")
    b = a.duplicate("a")
    a.insert([b"k"], [b"v"])
    with pytest.raises(varvite.InvalidError, match="two tables are called"):
        session.share([a, b])
    assert a[b"k"] == b"v"  # it was not taken
    tables = session.share([a])
    with pytest.raises(varvite.ClosedError):
        a.get(b"k")
    with pytest.raises(varvite.ClosedError):
        session.share([a])
    block = tables.begin()
    block.insert("a", [b"k"], [b"w"])
    tables.close()
    assert tables.closed and block.get("a", b"k") == b"w"  # it has the tables still
    block.commit()
    with pytest.raises(varvite.ClosedError):
        tables.view("a")

    def join(older: bytes, newer: bytes) -> bytes:
        tables.begin()
        return newer

    tables = session.share([session.create_table("t", operator=MergeOperator("tests.begins", join))])
    with pytest.raises(varvite.InvalidError, match="return first"), tables.begin() as block:
        block.upsert("t", [b"k", b"k"], [b"1", b"2"])
        block.get("t", b"k")
    session.close()
    with pytest.raises(varvite.ClosedError):
        tables.commit({"t": Batch().insert(b"a", b"b")})


def test_one_call_opens_or_makes(tmp_path: Path) -> None:
    for run in range(3):
        with Session.open_or_create(tmp_path / "s", log="written") as session:
            table = session.open_or_create_table("t", operator=sum_operator())
            table.upsert([b"runs"], [number(1)])
            session.sync_log()
            assert table[b"runs"] == number(run + 1)
        with varvite.Store.open_or_create(tmp_path / "c") as store:
            tree = store.empty_tree()
            tree["run"] = b"%d" % run
            store.commit(tree, date=run)
            assert len(store.log()) == run + 1
    with Session.open(tmp_path / "s", log="written") as session:
        with session.open_shared(operators=[sum_operator()]) as tables:
            assert tables.get("t", b"runs") == number(3)


def test_a_scrub_finds_what_rotted(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s") as session:
        table = session.create_table("t", compression="fast")
        table.insert([b"%06d" % it for it in range(20_000)], [b"value" * 8] * 20_000)
        session.save_snapshot("s", [table])
        scrub = session.scrub()
        left, parts = scrub.work(1), 1
        while left:
            assert scrub.place > 0
            left, parts = scrub.work(16), parts + 1
        done, total = scrub.progress
        assert scrub.findings == [] and parts > 2 and done == total > 0
        largest = max((tmp_path / "s").rglob("*"), key=lambda it: it.stat().st_size if it.is_file() else 0)
        data = bytearray(largest.read_bytes())
        data[8192] ^= 1
        largest.write_bytes(data)
        with session.scrub() as scrub:
            while scrub.work(64):
                pass
            (finding,) = scrub.findings
        assert finding.file == largest.relative_to(tmp_path / "s").as_posix() and finding.snapshots == ["s"]
        with pytest.raises(varvite.ClosedError):
            scrub.work(1)
