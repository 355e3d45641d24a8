"""Errors repeat the beginning of a long input, whatever surrounds it."""

from __future__ import annotations

import pytest

from kwiken.base.errors import MAX_REPEATED, DefinitionError, InputError

LONG = "x" * 100_000


@pytest.mark.parametrize(
    "error",
    [
        InputError(f"not {LONG!r}"),
        InputError(f"unknown field `{LONG}`", where="plan.json"),
        InputError("must be a number", where=f"stage {LONG!r}"),
        InputError(f"not {'a b ' * 50_000!r}, but a number"),
        InputError(f"not {'it is ' * 50_000 + chr(34)!r}"),
        DefinitionError(f"unknown parent {LONG!r}", stage=LONG),
    ],
)
def test_a_long_input_is_repeated_to_a_bound(error: Exception) -> None:
    assert len(str(error)) <= 2 * MAX_REPEATED + 100


def test_the_words_around_a_long_input_stay() -> None:
    error = InputError(f"must be a number, not {LONG!r}, as in the gateway's 'plan'", where=f"stage {LONG!r}")
    assert str(error).startswith("stage 'xxx")
    assert ": must be a number, not 'xxx" in str(error)
    assert error.problem.startswith("must be a number")


def test_a_long_message_of_our_own_words_stays_whole() -> None:
    words = (
        "the gateway's plan is the service's, and so on, as long as it takes to say what would be right, " * 9
        + "whole"
    )
    assert str(InputError(words, where="plan.json")) == f"plan.json: {words}".rstrip()
