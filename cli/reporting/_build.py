"""Puts the page together."""

from __future__ import annotations

from cli.reporting import _sections
from cli.reporting._diagnosis import diagnosis
from cli.reporting._levers import other_levers
from cli.reporting._page import Page
from cli.reporting._result import DemoResult
from cli.reporting._spending import spending
from cli.reporting._summary import cards, summary
from cli.reporting._views import Material

SECTIONS = (
    _sections.latency,
    _sections.budget,
    other_levers,
    spending,
    _sections.timelines,
    diagnosis,
    _sections.curves,
    _sections.disturbance,
    _sections.method,
)


def made_line(result: DemoResult) -> str:
    """Where and when a demo's figures come from."""
    s = result.settings
    return (
        f"Demo of {result.created}: {s.seconds:g} s of load at {s.rate:g} requests a second, seed {s.seed}."
    )


def build_page(material: Material, *, made: str) -> Page:
    """The page for what was found.

    Args:
        material: all that is known.
        made: when and from what, for the line under the title.
    """
    sections = [section for make in SECTIONS if (section := make(material)) is not None]
    kind = "what a budget bought" if material.result is not None else "what a budget would buy"
    if material.result is None and material.plan is None:
        kind = "what the traces say"
    return Page(
        title=f"{material.service}: {kind}",
        made=made,
        summary=summary(material),
        cards=cards(material),
        sections=tuple(sections),
        foot=" ".join(material.notes),
    )
