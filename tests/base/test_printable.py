"""Escaping of untrusted text: one line, without control or invisible characters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from kwiken.base.printable import printable, printable_json
from kwiken.export.plans.hedges import plain

ANY = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\x1b\x9b\x7f\u202e\u2028\u3164\ufe0f\n\r")
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET /händler/東京 [bold]", "GET /händler/東京 [bold]"),
        ("\x1b[2J\r\n", "\\x1b[2J\\x0d\\x0a"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\u200bb\u2028c\ufeff", "a\\u200bb\\u2028c\\ufeff"),
        ("a\u3164b\ufe0f\U000e0041", "a\\u3164b\\ufe0f\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_steers_or_hides_is_spelt_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_printable_text_is_bounded() -> None:
    assert printable("x" * 11, most=10) == "x" * 10 + "..."
    assert printable("x" * 10, most=10) == "x" * 10
    assert plain("\n" * 1000).endswith("...")


@given(ANY)
def test_any_text_is_one_visible_line_and_stays_so(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=5))
def test_json_keeps_its_values(value: object) -> None:
    text = printable_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text) == value
