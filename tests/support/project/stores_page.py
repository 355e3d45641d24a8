"""Page of the table of stores, as the code has it: `python -m tests.support.project.stores_page` writes the page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kwiken.model.reads.stores import STORES

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "traces" / "stores.md"
_HEAD: Final = """# Reads and writes of stores

Copies are sent only of calls that read.
This table says which operations of common stores read and which change something.
It is made from `kwiken/model/reads/stores.py`.
An operation that is in no row is judged by its words, and is a write in doubt.

SQL is judged by the whole statement.
A `SELECT` that locks rows, fills a table, calls a function that is not known, or draws from a sequence
(`NEXT VALUE FOR ids`, `ids.NEXTVAL`, `nextval('ids')`) is a write.

Taking a task or a message (`GetActivityTask`, `ReceiveMessage`, `BLPOP`, `fetchAndLock`) changes something.
An aggregation of MongoDB may write its result, so it is a write; `--copyable` says otherwise.
"""


def page() -> str:
    """Text of the page."""
    rows = "\n".join(
        f"| {store} | {' '.join(found.reads)} | {' '.join(found.writes)} |" for store, found in STORES.items()
    )
    return f"{_HEAD}\n| store | reads | changes something |\n|---|---|---|\n{rows}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
