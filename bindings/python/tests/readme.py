"""Runs every example of the README, each in a folder of its own with a node's data folder in it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import varvite


def node_data(folder: Path) -> None:
    """What stands for the data folder of a node: a store of Irmin."""
    with varvite.Store.create(varvite.Disk.memory()) as store:
        tree = store.empty_tree()
        tree["contracts/alice/balance"] = b"5"
        tree["contracts/bob/balance"] = b"7"
        store.commit(tree, author="Tezos", message="level 1")
        scratch = varvite.Disk.memory()
        varvite.export_irmin(store, folder / "node-data" / "context", scratch)


def run(example: str, name: str) -> bool:
    """Whether it came to its end: one that cannot run here leaves by a SystemExit that says nothing."""
    try:
        exec(compile(example, name, "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        if left.code:
            raise
        return False
    return True


def main(readme: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 6, f"{readme} has {len(examples)} examples"
    passed = 0
    for number, example in enumerate(examples, 1):
        with tempfile.TemporaryDirectory() as folder:
            node_data(Path(folder))
            os.chdir(folder)
            print(f"example {number}", flush=True)
            if run(example, f"{readme} example {number}"):
                passed += 1
            else:
                print(f"skipped: example {number} of {readme.name}, which needs what is not there", flush=True)
            os.chdir("/")
    print(f"{passed} examples passed")


main(Path(sys.argv[1]).resolve())
