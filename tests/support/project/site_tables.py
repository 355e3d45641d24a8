"""Generator of the tables in the documents, which the site's own folder holds: `docs/site/tables.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FILE = Path(__file__).resolve().parents[3] / "docs" / "site" / "tables.py"


def generated(*words: str) -> str:
    """The table that a page asks for by these words, in Markdown.

    Args:
        words: kind of table, then what it is about.
    """
    spec = importlib.util.spec_from_file_location("site_tables", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.generate(words))
