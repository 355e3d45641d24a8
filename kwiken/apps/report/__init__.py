"""Report: one self-contained page of what was learned, planned and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.report.advice_words import (
        QUESTIONS as QUESTIONS,
        advice_sentences as advice_sentences,
        step_words as step_words,
    )
    from kwiken.apps.report.build import build_page as build_page, made_line as made_line
    from kwiken.apps.report.collect import Wishes as Wishes, gather as gather
    from kwiken.apps.report.inputs import find as find
    from kwiken.apps.report.page_of_advice import advice_page as advice_page, worth_table as worth_table
    from kwiken.apps.report.page_of_judgement import judgement_page as judgement_page

__getattr__ = lazy_names(__name__, __file__)
