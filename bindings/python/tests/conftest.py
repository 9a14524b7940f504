"""What several tests of misuse share: fixtures, one object of each class, operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import varvite
from varvite import Disk, MergeOperator, Session, Store, Table


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
    shared = session.share([session.create_table("shared")])
    return {
        "transaction": shared.begin(),
        "shared": shared,
        "scrub": session.scrub(),
        "reader": store.reader(),
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
    "transaction": lambda it: it.get("shared", b"a"),
    "shared": lambda it: it.get("shared", b"a"),
    "scrub": lambda it: it.work(1),
    "reader": lambda it: it.log(),
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


class Refused(Exception):
    pass


def operator(join: Callable[[bytes, bytes], Any]) -> MergeOperator:
    return MergeOperator("tests.join", join)


def small(session: Session, join: Callable[[bytes, bytes], Any]) -> Table:
    return session.create_table("t", operator=operator(join), write_buffer_bytes=64)
