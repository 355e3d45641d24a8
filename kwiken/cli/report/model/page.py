"""The page: sections of words, pictures and tables, rendered to one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup

from kwiken.printable import printable


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture.

    Attributes:
        svg: the drawing.
        caption: what to see in it.
        legend: (key of the style sheet, label).
        tight: takes its natural width rather than all there is.
    """

    svg: Markup
    caption: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    tight: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; the first cell of a row names it.

    Attributes:
        head: names of the columns.
        body: rows of cells.
        caption: what it holds.
        strong: first cells of the rows to stress.
    """

    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    caption: str = ""
    strong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """Parts side by side where there is room; `grid`: many small ones."""

    parts: Sequence[Figure | Table]
    grid: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page under one heading."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Card:
    """One number that matters; `key` gives the colour."""

    key: str
    label: str
    value: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that is shown."""

    title: str
    made: str
    summary: tuple[str, ...]
    cards: tuple[Card, ...] = ()
    sections: tuple[Section, ...] = ()
    foot: str = ""


def _shown(value: object) -> object:
    """Text as it is shown: names may hold what hides or turns the words around them."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(page: Page) -> str:
    """The page as HTML; whatever came from outside is escaped."""
    from jinja2 import Environment, StrictUndefined

    folder = resources.files("kwiken.cli.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    style = Markup((folder / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of our own
    return template.render(page=page, style=style)
