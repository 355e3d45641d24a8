"""Short, unique names of stages, from the service and the route that do the work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

MAX_NAME: Final = 44  # characters of a stage's name, so that tables of stages fit 100 columns
MIN_TAIL: Final = 5  # characters of the end of a route that says enough by itself
IN: Final = " in "  # between the name of a stage and that of the stage that contains it
MIN_SERVICE: Final = 10  # characters of a service's name that stay
_LEFT_OUT: Final = ".."
_METHOD: Final = re.compile(r"^(?:HTTP )?(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH):? (?=/)")
_VARIABLE: Final = re.compile(r"^(?:[{:<].*|\*+)$")


def short_names(operations: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A short name for each operation of a service: `service:end of the route`, unique among those given.

    The end of a route is as short as it can be while it differs from the other routes of the service.
    """
    pairs = sorted(set(operations))
    ends = {pair: _ends(pair[1]) for pair in pairs}
    size = dict.fromkeys(pairs, 0)

    def named() -> dict[tuple[str, str], str]:
        return {pair: f"{pair[0]}:{ends[pair][size[pair]]}" for pair in pairs}

    names = named()
    while twice := _repeated(names.values()):
        longer = [pair for pair in pairs if names[pair] in twice and size[pair] + 1 < len(ends[pair])]
        if not longer:
            break
        for pair in longer:
            size[pair] += 1
        names = named()
    return names


def short_ends(label: str) -> set[str]:
    """Ends of the route in a label `service:operation`, with and without the service."""
    service, _, operation = label.partition(":")
    ends = _ends(operation)
    return {*ends, *(f"{service}:{end}" for end in ends), operation.rsplit("/", 1)[-1]}


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, number in Counter(names).items() if number > 1}


def _ends(operation: str) -> list[str]:
    """Ends of a route, from the shortest that says something to the whole operation."""
    route = _METHOD.sub("", operation)
    segments = [segment for segment in route.split("/") if segment]
    if "/" not in route or not segments or " " in route:
        return [operation or "(no name)"]
    fixed = [place for place, segment in enumerate(segments) if not _VARIABLE.match(segment)]
    ends = []
    for place in reversed(fixed):
        ends = ["/".join(segments[i] for i in fixed if i >= place)]
        if len(ends[0]) >= MIN_TAIL:
            break
    first = segments.index(ends[0].split("/")[0]) if ends else len(segments) - 1
    ends += ["/".join(segments[place:]) for place in reversed(range(first + 1))]
    return [end for before, end in pairwise(["", *ends, operation]) if end != before]


def distinct(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Unique names of the stages: a name that occurs twice is qualified by the containing stages.

    Args:
        paths: name of each stage, followed by the names of the stages that contain it; no two alike.
    """
    length = [1] * len(paths)

    def named() -> list[str]:
        return [IN.join(path[:size]) for path, size in zip(paths, length, strict=True)]

    names = named()
    while twice := _repeated(names):
        grown = False
        for i, name in enumerate(names):
            if name in twice and length[i] < len(paths[i]):
                length[i] += 1
                grown = True
        if not grown:  # only for names that hold ` in ` themselves
            return [f"{name} ({i})" if name in twice else name for i, name in enumerate(names)]
        names = named()
    return names


def fitted(names: Sequence[str], suffixes: Sequence[str], longest: int = MAX_NAME) -> list[str]:
    """Names with their suffixes, of at most so many characters and unique: long names lose their middle.

    Args:
        suffixes: what to add to each name, such as ` (own time)`; no two names with their suffixes are alike.
        longest: most characters of a name with its suffix, 32 or more.
    """
    wanted = [name + suffix for name, suffix in zip(names, suffixes, strict=True)]
    taken = {name for name in wanted if len(name) <= longest}
    found = []
    for name, suffix in zip(names, suffixes, strict=True):
        short, again = name + suffix, 1
        while len(short) > longest or (again > 1 and short in taken):
            mark = f"~{again}" if again > 1 else ""
            short = _cut(name, longest - len(mark) - len(suffix)) + mark + suffix
            again += 1
            if short not in taken:
                break
        taken.add(short)
        found.append(short)
    return found


def _cut(name: str, longest: int) -> str:
    """Name of at most so many characters: the service is cut at its end, then the rest in its middle."""
    if len(name) <= longest:
        return name
    service, colon, route = name.partition(":")
    room = longest - len(colon) - len(route) - len(_LEFT_OUT)
    if colon and len(service) > MIN_SERVICE + len(_LEFT_OUT):
        service = service[: max(room, MIN_SERVICE)] + _LEFT_OUT
        name = service + colon + route
    over = len(name) - longest
    if over <= 0:
        return name
    start = (longest - len(_LEFT_OUT)) * 2 // 3
    return name[:start] + _LEFT_OUT + name[start + over + len(_LEFT_OUT) :]
