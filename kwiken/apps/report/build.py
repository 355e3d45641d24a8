"""Composition of the report's page from its sections."""

from __future__ import annotations

from dataclasses import replace

from kwiken.apps.report.model.page import Page
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.sections import sections as sections_module
from kwiken.apps.report.sections.causes import diagnosis
from kwiken.apps.report.sections.excess import excess_sentence
from kwiken.apps.report.sections.headline import cards, summary
from kwiken.apps.report.sections.levers import other_levers
from kwiken.apps.report.sections.slowest import slowest
from kwiken.apps.report.sections.spend import spending
from kwiken.apps.report.sections.views import Material

SECTIONS = (
    sections_module.latency,
    sections_module.budget,
    other_levers,
    spending,
    sections_module.timelines,
    diagnosis,
    sections_module.curves,
    sections_module.disturbance,
    sections_module.method,
)

# Of a page that explores a profile: who is slow, in which requests, and what helps.
EXPLORED = (
    diagnosis,
    slowest,
    spending,
    sections_module.budget,
    sections_module.curves,
    sections_module.method,
)


def made_line(result: DemoResult) -> str:
    """Line with the origin and time of a demo's figures."""
    s = result.settings
    return (
        f"Demo of {result.created}: {s.seconds:g} s of load at {s.rate:g} requests a second, seed {s.seed}."
    )


def build_page(material: Material, *, made: str) -> Page:
    """Build the page of a report.

    Args:
        made: origin and time of the data, for the line under the title.
    """
    sections = [section for make in SECTIONS if (section := make(material)) is not None]
    kind = "measured effect of a plan" if material.result is not None else "expected effect of a plan"
    if material.result is None and material.plan is None:
        kind = "latency and its causes"
    return Page(
        title=f"{material.service}: {kind}",
        made=made,
        summary=summary(material),
        cards=cards(material),
        sections=tuple(sections),
        foot=" ".join(material.notes),
    )


def build_exploration(material: Material, *, made: str) -> Page:
    """Build the page that explores a profile, where a reader picks a stage.

    Args:
        made: origin and time of the data, for the line under the title.
    """
    assert material.profile is not None
    assert material.story is not None
    lead = f"{excess_sentence(material.story.slow[-1])}."
    sections = (section for make in EXPLORED if (section := make(material)) is not None)
    return Page(
        title=f"{material.service}: what makes requests slow",
        made=made,
        summary=(lead, *summary(material)),
        sections=tuple(
            replace(each, words=tuple(words for words in each.words if words != lead)) for each in sections
        ),
        foot=" ".join(material.notes),
        stages=tuple(stage.name for stage in material.profile.stages),
    )
