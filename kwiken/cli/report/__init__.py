"""Report: one self-contained page of what was learned, planned and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.report.advice_words import QUESTIONS, advice_sentences, step_words
    from kwiken.cli.report.build import build_page, made_line
    from kwiken.cli.report.collect import Wishes, gather
    from kwiken.cli.report.inputs import find
    from kwiken.cli.report.page_of_advice import advice_page
    from kwiken.cli.report.page_of_judgement import judgement_page

__all__ = [
    "QUESTIONS",
    "Wishes",
    "advice_page",
    "advice_sentences",
    "build_page",
    "find",
    "gather",
    "judgement_page",
    "made_line",
    "step_words",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.report.advice_words": ("QUESTIONS", "advice_sentences", "step_words"),
        "kwiken.cli.report.page_of_advice": ("advice_page",),
        "kwiken.cli.report.build": ("build_page", "made_line"),
        "kwiken.cli.report.collect": ("Wishes", "gather"),
        "kwiken.cli.report.inputs": ("find",),
        "kwiken.cli.report.page_of_judgement": ("judgement_page",),
    },
)
