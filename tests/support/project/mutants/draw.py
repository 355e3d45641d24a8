"""Rooms whose mutants are drawn, and the draw.

The rooms take turns, so a set of 25 has five of each. A kind is drawn first, then one of its places: rare kinds,
such as the order of a sort, come as often as constants.
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.project.mutants.kinds import Mutant, mutants

ROOT: Final = Path(__file__).resolve().parents[4]
EQUIVALENTS: Final = Path(__file__).with_name("equivalents.toml")


class Room(NamedTuple):
    """Code of a room and the tests that are concerned.

    Attributes:
        code: folders whose files are changed, from the root of the tree.
        tests: folders of tests, in the order in which they run.
    """

    code: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS: Final = {
    "placement": Room(
        ("kwiken/allocator/placement", "kwiken/allocator/schedulers"),
        ("tests/allocator/placement", "tests/allocator/schedulers"),
    ),
    "workloads": Room(
        ("kwiken/allocator/workloads",), ("tests/allocator/workloads", "tests/allocator/neighbours")
    ),
    "adaptation": Room(("kwiken/allocator/adaptation",), ("tests/allocator/adaptation",)),
    "capacity": Room(("kwiken/allocator/capacity",), ("tests/allocator/capacity",)),
    "fleet": Room(("papers/worlds/fleet",), ("tests/papers/fleet",)),
}


def mutants_of(room: Room, root: Path = ROOT) -> list[Mutant]:
    """All mutants of a room, by file and place."""
    return [
        mutant
        for folder in room.code
        for path in sorted((root / folder).rglob("*.py"))
        for mutant in mutants(path.relative_to(root).as_posix(), path.read_bytes())
    ]


def drawn(seed: int, count: int) -> list[tuple[str, Mutant]]:
    """Mutants drawn at random, with the names of their rooms; no two change the same place."""
    rng = random.Random(seed)
    left = {name: mutants_of(room) for name, room in ROOMS.items()}
    result = []
    for turn in range(count):
        name = [*ROOMS][turn % len(ROOMS)]
        kind = rng.choice(sorted({mutant.kind for mutant in left[name]}))
        places = sorted({(one.path, one.start, one.before) for one in left[name] if one.kind == kind})
        place = rng.choice(places)
        here = [one for one in left[name] if (one.path, one.start, one.before) == place]
        result.append((name, rng.choice([one for one in here if one.kind == kind])))
        left[name] = [one for one in left[name] if one not in here]
    return result


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """Reasons of the mutants that a person found to behave like the original, by file, function and change."""
    entries = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8")).get("equivalent", [])
    return {(one["path"], one["inside"], one["before"], one["after"]): one["reason"] for one in entries}


def reason(mutant: Mutant) -> str | None:
    """Why a mutant counts as equivalent, None where nobody says so."""
    return equivalents().get((mutant.path, mutant.inside, mutant.before, mutant.after))
