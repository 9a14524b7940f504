"""Processes that fork, read beside a writer, or end with everything open."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import varvite
from conftest import USES, made, small
from varvite import Disk, MergeOperator, Session, Store


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
        # Each of the three threads may have joined once since the last insertion of any.
        assert session.open_table("t", operators=[joined]).get(b"a") in (b"1", b"12", b"122", b"1222")
