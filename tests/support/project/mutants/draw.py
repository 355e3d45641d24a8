"""Rooms whose mutants are drawn, and the draw.

A room is a folder of `kwiken/`, or a folder in one. The rooms take turns, in an order that the seed draws. A kind
is drawn first, then one of its places: rare kinds, such as the order of a sort, come as often as constants.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.project.mutants.kinds import Mutant, mutants

ROOT: Final = Path(__file__).resolve().parents[4]
EQUIVALENTS: Final = Path(__file__).with_name("equivalents.toml")
CODE: Final = ("kwiken", "papers/paragon", "papers/worlds/fleet")
# Tests of a room that stand in no folder of the room's name: of what calls it, or of its verbs.
MORE_TESTS: Final = {
    "allocator/distance": ("tests/cli/traffic",),
    "allocator/packing": ("tests/cli/packing",),
    "allocator/placement": ("tests/allocator/schedulers",),
    "allocator/provisioning": ("tests/cli/allocate",),
    "allocator/schedulers": ("tests/allocator/placement",),
    "allocator/contention": ("tests/cli/allocate", "tests/allocator/neighbours"),
    "batch/jobs": ("tests/cli/batch",),
    "batch/racks": ("tests/cli/batch",),
    "storage/consolidation": ("tests/cli/storage",),
    "storage/model": ("tests/cli/storage",),
    "traffic": ("tests/cli/traffic",),
}


class Room(NamedTuple):
    """Code of a room and the tests that are concerned.

    Attributes:
        files: files that are changed, from the root of the tree.
        tests: folders of tests, beside the files of tests that import what is changed.
    """

    files: tuple[str, ...]
    tests: tuple[str, ...]


def room_of(path: str) -> str:
    """Name of a file's room: `allocator/packing`, or the wing alone for a file outside of its folders."""
    folders = path.removeprefix("kwiken/").split("/")[:-1]
    return "/".join(folders if path.startswith("papers/") else folders[:2]) or "kwiken"


def _rooms() -> dict[str, Room]:
    files: dict[str, list[str]] = {}
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            files.setdefault(room_of(path), []).append(path)
    found = {}
    for name, paths in files.items():
        nearest = next(
            (f"tests/{one}" for one in (name, name.split("/")[0]) if (ROOT / "tests" / one).is_dir()),
            "tests/project",
        )
        found[name] = Room(tuple(paths), (nearest, *MORE_TESTS.get(name, ())))
    return found


ROOMS: Final = _rooms()


def chosen_rooms(word: str) -> dict[str, Room]:
    """Rooms by name, by the last part of the name, or by their wing; all for an empty word.

    Raises:
        ValueError: no room has the name.
    """
    found = {
        name: room
        for name, room in ROOMS.items()
        if not word or name == word or name.startswith(f"{word}/") or name.endswith(f"/{word}")
    }
    if not found:
        raise ValueError(f"no room {word!r}; there are {', '.join(sorted(ROOMS))}")
    return found


@cache
def mutants_of(path: str) -> tuple[Mutant, ...]:
    """All mutants of a file, by place."""
    return tuple(mutants(path, (ROOT / path).read_bytes()))


def mutants_in(paths: Iterable[str]) -> list[Mutant]:
    """All mutants of some files, by file and place."""
    return [mutant for path in paths for mutant in mutants_of(path)]


def drawn(seed: int, count: int, rooms: Mapping[str, Room] = ROOMS) -> list[tuple[str, Mutant]]:
    """Mutants drawn at random, with the names of their rooms; no two change the same place."""
    rng = random.Random(seed)
    turns = rng.sample(sorted(rooms), len(rooms))
    left: dict[str, list[Mutant]] = {}
    result: list[tuple[str, Mutant]] = []
    while len(result) < count and turns:
        name = turns.pop(0)
        here = left.setdefault(name, mutants_in(rooms[name].files))
        if not here:
            continue
        turns.append(name)
        kind = rng.choice(sorted({mutant.kind for mutant in here}))
        places = sorted({(one.path, one.start, one.before) for one in here if one.kind == kind})
        place = rng.choice(places)
        same = [one for one in here if (one.path, one.start, one.before) == place]
        result.append((name, rng.choice([one for one in same if one.kind == kind])))
        left[name] = [one for one in here if one not in same]
    return result


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """Reasons of the mutants that a person found to behave like the original, by file, function and change."""
    entries = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8")).get("equivalent", [])
    return {(one["path"], one["inside"], one["before"], one["after"]): one["reason"] for one in entries}


def reason(mutant: Mutant) -> str | None:
    """Why a mutant counts as equivalent, None where nobody says so."""
    return equivalents().get((mutant.path, mutant.inside, mutant.before, mutant.after))
