"""Draws what a context and a table consist of: `plot.py OUT [CONTEXT [SESSION SNAPSHOT]]`.

OUT gets `subtrees.svg`, the bytes of the values below the first steps of the newest commit's paths, and `levels.svg`,
the levels of the tables in a snapshot. CONTEXT is the folder of a store, of varvite or of Irmin. What is not given is made
up. With matplotlib both are drawn by it; without, the bars are written by hand.
"""

from __future__ import annotations

import sys
from collections import Counter
from html import escape
from pathlib import Path

import varvite

Bars = list[tuple[str, int]]


def draw(out: Path, title: str, bars: Bars) -> None:
    try:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    except ImportError:
        out.write_text(svg(title, bars), encoding="utf-8")
        return
    figure = Figure(figsize=(8, 1 + 0.3 * len(bars)))
    axes = figure.add_subplot()
    axes.barh([name for name, _ in bars], [size for _, size in bars])
    axes.invert_yaxis()
    axes.set_title(title)
    axes.set_xlabel("bytes")
    figure.tight_layout()
    figure.savefig(out)


def svg(title: str, bars: Bars) -> str:
    most = max((size for _, size in bars), default=0) or 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{40 + 22 * len(bars)}" font-family="sans-serif" '
        f'font-size="12"><text x="10" y="20" font-size="14">{escape(title)}</text>'
    ]
    for place, (name, size) in enumerate(bars):
        top = 32 + 22 * place
        lines.append(
            f'<text x="10" y="{top + 13}">{escape(name)}</text>'
            f'<rect x="240" y="{top}" width="{440 * size / most:.1f}" height="18" fill="#4a7ab0"/>'
            f'<text x="{246 + 440 * size / most:.1f}" y="{top + 13}">{size:,}</text>'
        )
    return "\n".join([*lines, "</svg>\n"])


def subtrees(store: varvite.Store, depth: int = 2, most: int = 30) -> Bars:
    """Bytes of values by the first steps of their paths, in one pass."""
    sizes: Counter[str] = Counter()
    for commit in store.log(1):
        for path, value in store.checkout(commit).items(order="undefined"):
            sizes[b"/".join(path[:depth]).decode(errors="replace")] += len(value)
    return sizes.most_common(most)


def levels(session: varvite.Session, snapshot: str) -> Bars:
    bars: Bars = []
    with session.open_snapshot(snapshot) as found:
        for name in found.tables:
            with found.take(name) as table:
                for number, level in enumerate(table.stats().levels):
                    last = ", the last" if level.is_last else ""
                    bars.append((f"{name}: level {number}, {level.runs} runs{last}", level.disk_bytes))
    return bars


def made_up_store() -> varvite.Store:
    store = varvite.Store.create(varvite.Disk.memory())
    tree = store.empty_tree()
    for number in range(2_000):
        tree[f"data/contracts/{number * 7919 % 2_000:05}/balance"] = b"5" * (number % 9 + 1)
        tree[f"data/rolls/{number:05}"] = b"r" * 12
    tree["data/version"] = b"12"
    store.commit(tree, message="made up")
    return store


def made_up_session() -> varvite.Session:
    session = varvite.Session.create(varvite.Disk.memory())
    table = session.create_table("utxo", write_buffer_bytes=32 << 10)
    for first in range(0, 20_000, 250):
        keys = [b"%08d" % (number * 7919 % 20_000) for number in range(first, first + 250)]
        table.insert(keys, [b"v" * 60] * len(keys))
    session.save_snapshot("slot", [table])
    return session


def main(arguments: list[str]) -> None:
    out, *given = arguments
    Path(out).mkdir(parents=True, exist_ok=True)
    if not given:
        store = made_up_store()
    elif varvite.is_irmin(given[0]):
        store = varvite.open_irmin(given[0])
    else:
        store = varvite.Store.open_read_only(given[0])
    with store:
        draw(Path(out, "subtrees.svg"), "bytes of values by subtree", subtrees(store))
    session = varvite.Session.open_read_only(given[1]) if len(given) > 2 else made_up_session()
    with session:
        draw(Path(out, "levels.svg"), "bytes of files by level", levels(session, given[2] if len(given) > 2 else "slot"))
    for name in ("subtrees.svg", "levels.svg"):
        assert "<svg" in Path(out, name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
