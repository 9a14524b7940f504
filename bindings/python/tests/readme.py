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


def main(readme: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 6, f"{readme} has {len(examples)} examples"
    for number, example in enumerate(examples, 1):
        with tempfile.TemporaryDirectory() as folder:
            node_data(Path(folder))
            os.chdir(folder)
            print(f"example {number}", flush=True)
            exec(compile(example, f"{readme} example {number}", "exec"), {"__name__": "__main__"})
            os.chdir("/")
    print(f"{len(examples)} examples passed")


main(Path(sys.argv[1]).resolve())
