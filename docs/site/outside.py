"""Sphinx extension: what the pages and docstrings say in the repository's own way, said in the site's.

The first page gets the table of contents, which would only be noise where the repository shows that page.
Pages link to README.md and its like, which lie outside `docs/`; the site has a page for each. Other files of
the repository are named in place of a link. Decisions are left out of the site's search.
Docstrings put code between single backticks, as Markdown does; reStructuredText wants two.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

OUTSIDE = re.compile(r"\]\((?:\.\./)+(README|SECURITY|CHANGELOG)\.md")
OTHERS = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+((?:benchmarks|tests|papers|loadtest|services|runtime)\b[^)\s]*)\)"
)
UNSEARCHED = "---\nnosearch: true\n---\n\n"
PAGES = {"README": "install", "SECURITY": "security", "CHANGELOG": "changelog"}
CONTENTS = Path(__file__).with_name("contents.txt")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
BEFORE_NAPOLEON = 400  # its priority is 500; it divides a docstring into fields


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead links to a file outside `docs/` to its page in the site; add the table of contents."""
    up = "../" * page.count("/")
    if page == app.config.root_doc:
        source[0] += "\n" + CONTENTS.read_text(encoding="utf-8")
    if page.startswith("decisions/"):
        source[0] = UNSEARCHED + source[0]
    source[0] = OUTSIDE.sub(lambda link: f"]({up}site/{PAGES[link[1]]}.md", source[0])
    source[0] = OTHERS.sub(r"\1 (`\2`)", source[0])


def quote_code(_app: Sphinx, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
    """Put code in a docstring between two backticks."""
    lines[:] = CODE.sub(r"``\1``", "\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", quote_code, priority=BEFORE_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
