"""Installed distributions that a service needs, each with its exact version; wheels that no index has."""

from __future__ import annotations

import json
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError

_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
_WHEEL: Final = re.compile(r"([A-Za-z0-9._]+)-([A-Za-z0-9._+!]+)(?:-[0-9][^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
_SEPARATORS: Final = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class Pins:
    """Distributions of an image.

    Attributes:
        lines: lines of a requirements file, `NAME==VERSION`, sorted.
        wheels: wheels of those that were installed from a file, or that were given.
    """

    lines: tuple[str, ...]
    wheels: tuple[Path, ...]


def pinned(modules: Sequence[str], extras: Sequence[str], wheels: Sequence[Path] = ()) -> Pins:
    """Pin kwiken and what some modules belong to, with all that they need, to what is installed here.

    Args:
        modules: top-level modules that the code imports; those of Python itself are left out.
        extras: extras of kwiken that the image needs.
        wheels: wheels to install from, for distributions that no index has.

    Raises:
        InputError: a distribution was installed from a folder, and no wheel of it is given; a module is of no
            distribution; a file is no wheel, or of a distribution that is not needed.
    """
    given = {_normal(_parts(wheel)[0]): wheel for wheel in wheels}
    needed: dict[str, Distribution] = {}
    waiting: list[tuple[str, frozenset[str]]] = [("kwiken", frozenset(extras))]
    waiting += [(name, frozenset()) for name in _distributions_of(modules)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        name, wanted = one
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or version of Python
        needed[name] = found
        waiting += list(_requirements(found, wanted))
    if idle := sorted(given.keys() - needed.keys()):
        raise InputError("the service does not need it; leave it out", where=f"--wheel {given[idle[0]]}")
    return Pins(
        tuple(
            f"{name}=={_parts(given[name])[1] if name in given else found.version}"
            for name, found in sorted(needed.items())
        ),
        tuple(
            wheel
            for name, found in sorted(needed.items())
            if (wheel := given.get(name) or _wheel_of(name, found)) is not None
        ),
    )


def _parts(wheel: Path) -> tuple[str, str]:
    """Name and version that the name of a wheel's file tells."""
    match = _WHEEL.fullmatch(wheel.name)
    if match is None:
        raise InputError("must be NAME-VERSION-TAGS.whl, as builders name wheels", where=f"--wheel {wheel}")
    return match[1], match[2]


def _distributions_of(modules: Sequence[str]) -> Iterator[str]:
    by_module = packages_distributions()
    for module in modules:
        if module in sys.stdlib_module_names or module == "kwiken":
            continue
        names = by_module.get(module)
        if names is None:
            raise InputError(
                "is imported by the service, and neither below this folder nor of an installed package",
                where=f"module {module}",
            )
        yield from (_normal(name) for name in names)


def _requirements(found: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Names and extras of what a distribution needs; other markers are left to what is installed."""
    for text in found.requires or ():
        requirement, _, marker = text.partition(";")
        asked = _EXTRA.findall(marker)
        if asked and not extras.intersection(asked):
            continue
        match = _NAME.match(requirement)
        if match is not None:
            more = frozenset(part.strip() for part in (match[2] or "").split(",") if part.strip())
            yield _normal(match[1]), more


def _wheel_of(name: str, found: Distribution) -> Path | None:
    """Wheel that a distribution was installed from; None for one of an index.

    Raises:
        InputError: it was installed from a folder or a repository, or its wheel is gone.
    """
    text = found.read_text("direct_url.json")
    if text is None:
        return None
    told = json.loads(text)
    url = urllib.parse.urlsplit(told.get("url", ""))
    path = Path(urllib.request.url2pathname(url.path))
    if url.scheme == "file" and path.suffix == ".whl" and path.is_file():
        return path
    raise InputError(
        f"was installed from {told.get('url')}, which no image can install; build a wheel and give "
        "--wheel FILE",
        where=f"package {name}",
    )


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
