"""Page model of text, figures and tables, rendered to one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup

from kwiken.base.printable import printable


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Figure with a caption.

    Attributes:
        caption: text below the drawing.
        link: address that the caption leads to, and its text; None for none.
        legend: pairs of a class of the style sheet and a label.
        tight: whether the figure keeps its natural width rather than filling the page.
        fold: words that the figure is folded under; empty for a figure that is always seen.
        stages: stages that the figure is about, on a page where a reader picks one; empty for all.
    """

    svg: Markup
    caption: str = ""
    link: tuple[str, str] | None = None
    legend: tuple[tuple[str, str], ...] = ()
    tight: bool = False
    fold: str = ""
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table whose rows are named by their first cells.

    Attributes:
        caption: text below the table.
        strong: first cells of the rows to emphasise.
    """

    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    caption: str = ""
    strong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """Parts side by side if there is room; `grid` is for many small parts."""

    parts: Sequence[Figure | Table]
    grid: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section of the page under one heading."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Card:
    """Card with one key figure; `key` is its class in the style sheet."""

    key: str
    label: str
    value: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Contents of the page.

    Attributes:
        stages: stages of which a reader picks one, by a script of the page's own; empty for no script.
    """

    title: str
    made: str
    summary: tuple[str, ...]
    cards: tuple[Card, ...] = ()
    sections: tuple[Section, ...] = ()
    foot: str = ""
    stages: tuple[str, ...] = ()


def _shown(value: object) -> object:
    """Escape invisible and direction-changing characters of text, which names may contain."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(page: Page) -> str:
    """Render the page as HTML; untrusted text is escaped."""
    from jinja2 import Environment, StrictUndefined

    folder = resources.files("kwiken.apps.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    style = Markup((folder / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of our own
    script = (folder / "sections" / "explore.js").read_text(encoding="utf-8") if page.stages else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        page=page,
        style=style,
        script=Markup(script),  # noqa: S704 - likewise
        shown=lambda names: json.dumps([printable(name) for name in names]),  # as the page's text has them
        policy=f"script-src 'sha256-{digest}'; " if script else "",
    )
