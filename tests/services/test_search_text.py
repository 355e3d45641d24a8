"""Tokenizer, stemmer and edit distance, which the index and queries share."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.services.search.index import text as text_module
from kwiken.services.search.stages.spell import edits

LETTERS = "abcdefg"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TemporaryDirectory", ["temporary", "directory"]),
        ("HTTPServer", ["http", "server"]),
        ("b64encode", ["b64", "encode"]),
        ("IPv4Address", ["ipv4", "address"]),
        ("create_task", ["create", "task"]),
        ("asyncio.gather(x)", ["asyncio", "gather", "x"]),
        ("  ", []),
    ],
)
def test_words_are_split_as_names_are_read(text: str, expected: list[str]) -> None:
    assert text_module.words(text) == expected


@pytest.mark.parametrize(
    ("forms", "stem"),
    [
        (("parse", "parsing", "parsed", "parses"), "pars"),
        (("directory", "directories"), "directori"),
        (("run", "running", "runs"), "run"),
        (("match", "matches", "matching", "matched"), "match"),
        (("class", "classes"), "class"),
        (("insert", "insertion", "inserting"), "insert"),
        (("copy", "copied", "copies"), "copi"),
    ],
)
def test_forms_of_one_word_have_one_stem(forms: tuple[str, ...], stem: str) -> None:
    assert {text_module.stem(form) for form in forms} == {stem}


@pytest.mark.parametrize("word", ["string", "this", "status", "pass", "bus", "is", "os", "ssl", "2to3"])
def test_endings_that_are_no_suffix_stay(word: str) -> None:
    assert text_module.stem(word) == word


def test_a_compound_counts_once_more_as_a_whole() -> None:
    assert text_module.terms("create_task now") == ["creat", "task", "createtask", "now"]
    assert text_module.terms("createTask") == ["creat", "task", "createtask"]
    assert text_module.terms("create task") == ["creat", "task"]


@given(st.text(max_size=60))
def test_pieces_lose_no_letter_or_digit(text: str) -> None:
    found = "".join(word for word, _ in text_module.pieces(text))
    kept = "".join(letter for letter in text if letter.isascii() and letter.isalnum())
    if all(len(run) <= text_module.MAX_WORD for run in text.split()):
        assert found == kept


@given(st.text(max_size=80))
def test_terms_are_bounded_and_never_empty(text: str) -> None:
    assert all(0 < len(term) <= text_module.MAX_WORD for term in text_module.terms(text))


def reference_edits(a: str, b: str) -> int:
    """Optimal string alignment by the textbook's recursion."""
    if not a or not b:
        return len(a) + len(b)
    best = min(
        reference_edits(a[:-1], b) + 1,
        reference_edits(a, b[:-1]) + 1,
        reference_edits(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    )
    if len(a) > 1 and len(b) > 1 and a[-1] == b[-2] and a[-2] == b[-1]:
        best = min(best, reference_edits(a[:-2], b[:-2]) + 1)
    return best


@given(st.text("abc", max_size=5), st.text("abc", max_size=5), st.integers(0, 5))
def test_edits_agree_with_the_definition(a: str, b: str, limit: int) -> None:
    assert edits(a, b, limit) == min(reference_edits(a, b), limit + 1)


@given(st.text(LETTERS, min_size=5, max_size=12), st.data())
def test_words_two_edits_apart_share_a_deletion(word: str, data: st.DataObject) -> None:
    other = word
    for _ in range(2):
        at = data.draw(st.integers(0, len(other) - 1))
        letter = data.draw(st.sampled_from(LETTERS))
        swapped = other[:at] + other[at : at + 2][::-1] + other[at + 2 :]
        changes = [other[:at] + other[at + 1 :], other[:at] + letter + other[at:], swapped]
        other = data.draw(st.sampled_from([*changes, other[:at] + letter + other[at + 1 :]]))
    if len(other) >= 5:
        assert text_module.deletions(word) & text_module.deletions(other)
