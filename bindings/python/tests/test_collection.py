"""Collection of old commits, pins, lower folders, snapshots of commits as files, readers."""

from __future__ import annotations

import gc
import random
import threading
from pathlib import Path

import pytest
import varvite
from varvite import Disk, Store


def chain(store: Store, count: int) -> list[bytes]:
    """Commits that have their number, and values that only one of them has."""
    commits: list[bytes] = []
    tree = store.empty_tree()
    for number in range(count):
        tree["number"] = b"%d" % number
        tree[f"many/{number % 4}"] = bytes([number]) * 50000
        commits.append(store.commit(tree, parents=commits[-1:], date=number))
    return commits


def collect(store: Store) -> None:
    while store.collect_step(64):
        pass


def test_old_commits_go_and_pins_stay() -> None:
    disk = Disk.memory()
    with Store.create(disk, chunk_bytes=10_000) as store:
        commits = chain(store, 20)
        store.pin(commits[3])
        store.set_branch("old", commits[5])
        before = store.stats().pack_bytes
        store.collect(commits[15])
        status = store.collect_status()
        assert (status.phase, status.target, status.is_paused) == ("marking", commits[15], False)
        with pytest.raises(varvite.InvalidError):
            store.collect(commits[16])
        assert not store.collect_keeping(newest=1)
        store.collect_pause()
        assert store.collect_status().is_paused and not store.collect_step(1 << 20)
        store.collect_resume()
        collect(store)
        status = store.collect_status()
        assert (status.phase, status.collections) == ("none", 1) and status.reclaimed_bytes > 0
        assert store.stats().pack_bytes < before
        for number, commit in enumerate(commits):
            if number in (3, 5) or number >= 15:
                assert store.checkout(commit)["number"] == b"%d" % number
            else:
                with pytest.raises(varvite.CollectedError):
                    store.checkout(commit)
        with pytest.raises(varvite.CollectedError):
            store.pin(commits[4])
        assert store.pins() == [commits[3]]
    with Store.open(disk) as store:
        assert store.unpin(commits[3]) and not store.unpin(commits[3])
        assert store.collect_keeping(newest=2) and store.collect_cancel() and not store.collect_cancel()
        assert store.pin_every(2) > 0
        assert store.collect_keeping(since=18)
        collect(store)
        assert all(store.exists(it) for it in store.pins())
        checked = store.check()
        assert checked.index_faults == [] and checked.commits < 20
        for arguments in ({}, {"newest": 1, "since": 1}):
            with pytest.raises(varvite.InvalidError, match="newest and since"):
                store.collect_keeping(**arguments)
        with pytest.raises(varvite.InvalidError):
            store.pin_every(0)
        with pytest.raises(varvite.MissingError):
            store.pin(b"x" * 32)


def test_chunks_move_to_a_lower_folder_and_come_back(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", chunk_bytes=10_000, lower=tmp_path / "lower", durability="written") as store:
        commits = chain(store, 12)
        assert store.archive(commits[8]) > 1 and store.archived_bytes > 0
        assert store.checkout(commits[0])["number"] == b"0"
        with pytest.raises(varvite.InvalidError):
            store.collect(commits[8])
    with Store.open(tmp_path / "s") as store, pytest.raises(varvite.Error):
        store.checkout(commits[0]).find("number")
    with Store.open(tmp_path / "s", lower=tmp_path / "lower") as store:
        assert store.unarchive(1) == 1
        assert store.unarchive() > 0 and store.archived_bytes == 0
        assert store.attach() == 0
        assert store.check().commits == 12
    with Store.open(tmp_path / "s") as store:
        assert store.checkout(commits[0])["number"] == b"0"


def test_commits_travel_as_files(tmp_path: Path) -> None:
    told: list[varvite.CommitFileProgress] = []
    with Store.create(Disk.memory()) as store:
        commits = chain(store, 2)
        tree = store.checkout(commits[1])
        tree["number"], tree["large"] = b"2", random.Random(1).randbytes(3 << 19).hex().encode()
        commits.append(store.commit(tree, parents=commits[1:], date=2))
        file = store.export_commits(commits[1:], tmp_path, "two", watch=told.append)
        assert (file.commits, file.commit) == (2, commits[2]) and told[-1].bytes <= file.bytes
        small = store.export_commits(commits[1:], tmp_path, "small", zstd_level=9)
        assert small.hash == file.hash and small.bytes < file.bytes
        with pytest.raises(varvite.InvalidError):
            store.export_commits(commits, tmp_path, "odd", zstd_level=99)
        with pytest.raises(ZeroDivisionError):
            store.export_commits(commits[1:], tmp_path, "raised", watch=lambda it: 1 / 0)
        assert not (tmp_path / "raised").exists()
    assert varvite.verify_commit(tmp_path, "two").hash == file.hash == varvite.verify_commit(tmp_path, "small").hash
    with Store.create(Disk.memory()) as other:
        with pytest.raises(ZeroDivisionError):
            other.import_commit(tmp_path, "two", watch=lambda it: 1 / 0)
        assert other.log() == []
        assert other.import_commit(tmp_path, "two", watch=told.append).commits == 2
        assert other.log() == [commits[2], commits[1]] and other.checkout(commits[2])["number"] == b"2"
    made, file = Store.create_from_commit(tmp_path / "made", tmp_path, "small")
    with made:
        assert made.last_commit() == commits[2] == file.commit
    data = bytearray((tmp_path / "two").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "two").write_bytes(data)
    with pytest.raises(varvite.CorruptError):
        varvite.verify_commit(tmp_path, "two")


def test_threads_read_while_the_store_commits() -> None:
    with Store.create(Disk.memory()) as store:
        first = chain(store, 1)[0]
        reader = store.reader()
        store.set_branch("main", first)
        seen: list[int] = []
        failed: list[BaseException] = []
        over = threading.Event()

        def read() -> None:
            try:
                while True:
                    is_last = over.is_set()
                    commit = reader.branch("main")
                    assert commit is not None and reader.exists(commit)
                    seen.append(int(reader.checkout(commit)["number"]))
                    if is_last:
                        return
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for it in threads:
            it.start()
        tree = store.checkout(first)
        for number in range(1, 60):
            tree["number"] = b"%d" % number
            store.set_branch("main", store.commit(tree, date=number))
        over.set()
        for it in threads:
            it.join()
        assert not failed and seen[-1] == 59
        last = reader.last_commit()
        assert last is not None and reader.commit_info(last).date == 59
        assert reader.log(1) == [last] and reader.branches() == [(b"main", last)]
        reader.close()
        with pytest.raises(varvite.ClosedError):
            reader.log()
        reader = store.reader()
    with pytest.raises(varvite.Error, match="was closed"):
        reader.log()


def test_a_reader_keeps_its_store(tmp_path: Path) -> None:
    def opened() -> varvite.Reader:
        store = Store.create(tmp_path / "s")
        chain(store, 3)
        return store.reader()

    reader = opened()
    gc.collect()
    newest = reader.last_commit()
    assert newest is not None and reader.checkout(newest)["number"] == b"2"
    with pytest.raises(varvite.LockedError):
        Store.open(tmp_path / "s")
    del reader
    gc.collect()
    with Store.open(tmp_path / "s") as store:
        reader = store.reader()
    with pytest.raises(varvite.ClosedError, match="was closed"):
        reader.last_commit()
