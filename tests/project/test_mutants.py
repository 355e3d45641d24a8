"""The draw of mutants, their kinds, and the mutants that a person marked as equivalent."""

from __future__ import annotations

import ast

import pytest

from tests.support.project.mutants.__main__ import ordered
from tests.support.project.mutants.draw import (
    ROOMS,
    ROOT,
    chosen_rooms,
    drawn,
    equivalents,
    mutants_in,
    mutants_of,
    room_of,
)
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


def test_every_file_of_the_code_is_in_one_room_with_tests() -> None:
    files = [path for room in ROOMS.values() for path in room.files]
    assert len(files) == len({*files})
    assert {*files} > {path.relative_to(ROOT).as_posix() for path in (ROOT / "kwiken").rglob("*.py")}
    for room in ROOMS.values():
        assert all((ROOT / folder).is_dir() for folder in room.tests)


@pytest.mark.parametrize("room", ["allocator/packing", "runtime/decisions", "otel/fit", "tail/planning"])
def test_mutants_of_a_room_can_be_read_as_python(room: str) -> None:
    found = mutants_in(ROOMS[room].files)
    assert len(found) > 500
    for one in found[:: len(found) // 50]:
        ast.parse(one.applied((ROOT / one.path).read_bytes()))


def test_a_room_is_chosen_by_its_name_its_last_part_or_its_wing() -> None:
    assert [*chosen_rooms("allocator/packing")] == ["allocator/packing"]
    assert {*chosen_rooms("packing")} == {"allocator/packing"}
    assert {*chosen_rooms("storage")} >= {"storage/consolidation", "storage/model", "storage/trace"}
    assert chosen_rooms("") == ROOMS
    with pytest.raises(ValueError, match=r"no room 'nothing'; there are .*allocator/packing"):
        chosen_rooms("nothing")


def test_a_seed_draws_the_same_mutants_from_all_rooms_in_turn() -> None:
    rooms = {name: ROOMS[name] for name in ("batch/racks", "traffic", "hedge")}
    first, again, other = drawn(1, 9, rooms), drawn(1, 9, rooms), drawn(2, 9, rooms)
    assert first == again
    assert first != other
    turns = [room for room, _ in first]
    assert {*turns[:3]} == {*rooms}
    assert turns == turns[:3] * 3
    places = [(one.path, one.start, one.before) for _, one in first]
    assert len(set(places)) == len(places)


def test_a_room_without_a_mutant_left_gives_its_turns_to_others() -> None:
    path = "kwiken/base/errors.py"
    count = len({(one.start, one.before) for one in mutants_of(path)})
    few = ROOMS["base"]._replace(files=(path,))
    names = [room for room, _ in drawn(1, 2 * count + 6, {"few": few, "many": ROOMS["hedge"]})]
    assert 0 < names.count("few") <= count
    assert len(names) == 2 * count + 6


def test_tests_that_import_a_changed_module_run_too() -> None:
    names = ordered("allocator/placement", ROOT, "kwiken/allocator/placement/node_ledger.py")
    assert {*names} > {"tests/allocator/placement/test_order.py", "tests/allocator/distance/test_nearby.py"}
    assert "tests/tail/curves/test_curve.py" not in names


def test_each_equivalent_is_a_mutant_of_today_with_a_reason() -> None:
    said = equivalents()
    paths = sorted({path for path, *_ in said})
    found = {(one.path, one.inside, one.before, one.after) for one in mutants_in(paths)}
    assert not {*said} - found
    assert {room_of(path) for path in paths} <= {*ROOMS}
    assert all(len(reason.split()) > 3 for reason in said.values())
