"""The draw of mutants, their kinds, and the mutants that a person marked as equivalent."""

from __future__ import annotations

import ast

import pytest

from tests.support.project.mutants.draw import ROOMS, ROOT, drawn, equivalents, mutants_of
from tests.support.project.mutants.kinds import mutants

SOURCE = b'''
"""A module."""
from typing import Final

MOST: Final = 3


class Row:
    name: str | None = None
    width: float = 0.5

    @property
    def wide(self, *, twice: bool = False) -> bool:
        """A docstring with 3 numbers."""
        assert self.name is not None
        if self.width >= 2.0 and twice:
            raise ValueError(f"{self.width + 1} is more than {1 + 1}")
        return self.width < 1e-9


def order(rows: list[int], done: list[int]) -> list[int]:
    for row in sorted(rows, reverse=True):
        if row > MOST:
            continue
        done.append(min(row - 1, MOST))
    return [row for row in done if row] + [1]
'''
ALL = {
    ("", "constant", "3", "(6)"),
    ("", "constant", "3", "(1)"),
    ("Row", "default", "0.5", "(1.0)"),
    ("Row", "default", "0.5", "(0.25)"),
    ("Row.wide", "default", "False", "(True)"),
    ("Row.wide", "and/or", "self.width >= 2.0 and twice", "(self.width >= 2.0 or twice)"),
    ("Row.wide", "comparison", "self.width >= 2.0", "(self.width > 2.0)"),
    ("Row.wide", "comparison", "self.width >= 2.0", "(self.width <= 2.0)"),
    ("Row.wide", "constant", "2.0", "(4.0)"),
    ("Row.wide", "constant", "2.0", "(1.0)"),
    ("Row.wide", "negated", "self.width >= 2.0 and twice", "(not (self.width >= 2.0 and twice))"),
    ("Row.wide", "dropped", 'raise ValueError(f"{self.width + 1} is more than {1 + 1}")', "pass"),
    ("Row.wide", "comparison", "self.width < 1e-9", "(self.width <= 1e-09)"),
    ("Row.wide", "comparison", "self.width < 1e-9", "(self.width > 1e-09)"),
    ("order", "order", "sorted(rows, reverse=True)", "(sorted(rows))"),
    ("order", "constant", "True", "(False)"),
    ("order", "comparison", "row > MOST", "(row >= MOST)"),
    ("order", "comparison", "row > MOST", "(row < MOST)"),
    ("order", "negated", "row > MOST", "(not (row > MOST))"),
    ("order", "dropped", "continue", "pass"),
    ("order", "dropped", "done.append(min(row - 1, MOST))", "pass"),
    ("order", "min/max", "min(row - 1, MOST)", "(max(row - 1, MOST))"),
    ("order", "arithmetic", "row - 1", "(row + 1)"),
    ("order", "constant", "1", "(2)"),
    ("order", "negated", "row", "(not (row))"),
}


def test_every_small_change_of_meaning_is_a_mutant_and_types_and_words_are_not() -> None:
    found = {(one.inside, one.kind, one.before, one.after) for one in mutants("row.py", SOURCE)}
    whole = {one for one in found if one[1] == "dropped" and one[2].startswith("if ")}
    assert len(whole) == 2
    assert found - whole == ALL


def test_a_mutant_is_the_file_with_one_change() -> None:
    for one in mutants("row.py", SOURCE):
        assert SOURCE.splitlines()[one.line - 1].count(one.before.splitlines()[0].encode())
        changed = one.applied(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert len(changed) - len(SOURCE) == len(one.after) - len(one.before)


@pytest.mark.parametrize("room", ROOMS)
def test_mutants_of_a_room_can_be_read_as_python(room: str) -> None:
    found = mutants_of(ROOMS[room])
    assert len(found) > 1000
    for one in found[:: len(found) // 50]:
        ast.parse(one.applied((ROOT / one.path).read_bytes()))


def test_a_seed_draws_the_same_mutants_from_all_rooms_in_turn() -> None:
    first, again, other = drawn(1, 10), drawn(1, 10), drawn(2, 10)
    assert first == again
    assert first != other
    assert [room for room, _ in first] == [*ROOMS, *ROOMS]
    places = [(one.path, one.start, one.before) for _, one in first]
    assert len(set(places)) == len(places)


def test_each_equivalent_is_a_mutant_of_today_with_a_reason() -> None:
    found = {
        (one.path, one.inside, one.before, one.after) for room in ROOMS.values() for one in mutants_of(room)
    }
    assert not {*equivalents()} - found
    assert all(len(reason.split()) > 3 for reason in equivalents().values())
