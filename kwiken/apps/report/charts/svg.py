"""Inline SVG drawings: basic shapes and escaped text, without external resources."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

from markupsafe import Markup

from kwiken.base.printable import printable

Point = tuple[float, float]
BROAD = 700.0  # width above which a phone shows a part of a drawing, in larger letters

# Two wide strokes of ink a period; laid over a bar it says "cancelled" without any colour.
_HATCH = (
    '<pattern id="hatch-{key}" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="var(--paper)"/><rect width="2.5" height="6" fill="{ink}"/></pattern>'
)


class Drawing:
    """Builder of an SVG; classes refer to the page's style sheet.

    Args:
        width: width of the view box, in its own units.
        height: height of the view box, in its own units.
        label: description of the drawing for screen readers.
    """

    def __init__(self, width: float, height: float, *, label: str) -> None:
        self.width = width
        self.height = height
        self._label = label
        self._defs: list[str] = []
        self._parts: list[str] = []

    def _add(
        self, tag: str, attributes: dict[str, object], *, inside: str = "", hint: str | None = None
    ) -> None:
        written = " ".join(
            f'{name}="{_safe(_number(value))}"' for name, value in attributes.items() if value is not None
        )
        inside += f"<title>{_safe(hint)}</title>" if hint else ""
        self._parts.append(f"<{tag} {written}>{inside}</{tag}>" if inside else f"<{tag} {written}/>")

    def line(self, start: Point, end: Point, cls: str) -> None:
        """Add a straight line."""
        self._add("line", {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1], "class": cls})

    def rect(
        self,
        corner: Point,
        size: Point,
        cls: str,
        *,
        fill: str | None = None,
        round_: float = 0,
        hint: str | None = None,
    ) -> None:
        """Add a rectangle by its upper left corner; `hint` is its tooltip."""
        place = {"x": corner[0], "y": corner[1], "width": max(size[0], 0.0), "height": max(size[1], 0.0)}
        extra = {"rx": round_ or None, "fill": fill, "class": cls}
        self._add("rect", {**place, **extra}, hint=hint)

    def circle(self, centre: Point, radius: float, cls: str, *, hint: str | None = None) -> None:
        """Add a disc."""
        self._add("circle", {"cx": centre[0], "cy": centre[1], "r": radius, "class": cls}, hint=hint)

    def path(self, points: Iterable[Point], cls: str, *, closed: bool = False) -> None:
        """Add straight lines from point to point."""
        steps = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        if steps:
            self._add("path", {"d": f"M{steps}{'Z' if closed else ''}", "class": cls})

    def curve(self, start: Point, end: Point, cls: str) -> None:
        """Add a curve downwards that starts and ends vertically."""
        middle = (start[1] + end[1]) / 2
        numbers = (start[0], start[1], start[0], middle, end[0], middle, end[0], end[1])
        a, b, c, d, e, f, g, h = (_number(value) for value in numbers)
        self._add("path", {"d": f"M{a} {b}C{c} {d} {e} {f} {g} {h}", "class": cls})

    def text(
        self, at: Point, words: str, cls: str = "t", *, anchor: str = "start", turn: bool = False
    ) -> None:
        """Add a line of text; `turn` rotates it upwards."""
        x, y = at
        settings: dict[str, object] = {"x": x, "y": y, "class": cls}
        settings["text-anchor"] = None if anchor == "start" else anchor
        settings["transform"] = f"rotate(-90 {_number(x)} {_number(y)})" if turn else None
        self._add("text", settings, inside=_safe(words))

    def hatch(self, key: str, ink: str) -> str:
        """Define a hatching; returns its fill for a rectangle."""
        definition = _HATCH.format(key=_safe(key), ink=_safe(ink))
        if definition not in self._defs:
            self._defs.append(definition)
        return f"url(#hatch-{key})"

    def markup(self) -> Markup:
        """Finish the SVG element."""
        box = f"0 0 {_number(self.width)} {_number(self.height)}"
        broad = ' class="broad"' if self.width > BROAD else ""
        defs = f"<defs>{''.join(self._defs)}</defs>" if self._defs else ""
        return Markup(  # noqa: S704 - every text and attribute above is escaped
            f'<svg viewBox="{box}"{broad} role="img" aria-label="{_safe(self._label)}" '
            f'style="--w:{_number(self.width)}px">{defs}{"".join(self._parts)}</svg>'
        )

    def document(self, style: str) -> str:
        """Finish the drawing as a file of its own.

        Args:
            style: style sheet for the classes of the shapes.
        """
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_number(self.width)}" '
        return f"{self.markup()}\n".replace("<svg ", opening, 1).replace(">", f"><style>{style}</style>", 1)


def _safe(words: str) -> str:
    """Escape text for an element or an attribute, invisible and direction-changing characters included."""
    return escape(printable(words))


def _number(value: object) -> str:
    """Round a coordinate to a tenth; leave other values as they are."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def short_name(name: str, most: int) -> str:
    """Shorten a stage's name; a long `service:operation` keeps the operation, which says more."""
    return name if _letters(name) <= most else shorten(name.rpartition(":")[2], most)


def shorten(words: str, most: int) -> str:
    """Cut text to the room of a number of ordinary letters, with an ellipsis."""
    if _letters(words) <= most:
        return words
    kept = words
    while kept and _letters(kept) > most - 1:
        kept = kept[:-1]
    return f"{kept}\N{HORIZONTAL ELLIPSIS}"


def _letters(words: str) -> float:
    """Width of text in ordinary letters: capitals take more room, characters of East Asia twice as much."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in words)
    return len(words) + wide + 0.3 * sum(each.isupper() for each in words)
