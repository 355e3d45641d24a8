"""Public names of definitions, from imports read as syntax: `asyncio.tasks.gather` is `asyncio.gather`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kwiken.services.search.index.source import Definition, Module

# Public-looking modules that are parts of others: what the documentation calls them.
_KNOWN_AS = {
    "builtins": "",
    "posixpath": "os.path",
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_pyio": "io",
    "_collections_abc": "collections.abc",
}
_INNER = frozenset(
    ("genericpath", "sre_compile", "sre_parse", "sre_constants", "pyexpat", "nturl2path", "ntpath")
)
# Names that modules make for their users by running code, so that no reading of imports finds them.
_MADE = (
    ("_hashlib.openssl_", "hashlib."),
    ("multiprocessing.context.BaseContext.", "multiprocessing."),
    ("multiprocessing.process.BaseProcess", "multiprocessing.Process"),
)
_DEPTH = 8

Found = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Offer:
    """A public name of something defined elsewhere."""

    name: str
    listed: bool


def shown(module: str) -> str:
    """The name of a module as documented."""
    return _KNOWN_AS.get(module, module)


def private(dotted: str) -> bool:
    """True if any part of the name starts with an underscore; a name such as `__init__` is not private."""
    return any(part.startswith("_") and not part.endswith("__") for part in dotted.split("."))


class DefinedNames:
    """Public names of all definitions.

    Args:
        modules: every module read, by name.
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules
        self._offers: dict[Found, list[Offer]] = {}
        for module in modules.values():
            if not private(shown(module.name)) and module.name not in _INNER:
                self._collect(module)

    def of(self, definition: Definition) -> tuple[str, list[str]]:
        """The name that a reader would write, and the others, the defining one among them."""
        own = _join(definition.module, definition.qualname)
        known = _join(shown(definition.module), definition.qualname)
        outer, rest = definition.qualname, ""
        names: list[Offer] = [Offer(known, listed=self._listed(definition))]
        while outer:
            offers = self._offers.get((definition.module, outer), ())
            names.extend(Offer(offer.name + rest, offer.listed) for offer in offers)
            outer, _, last = outer.rpartition(".")
            rest = f".{last}{rest}"
        for prefix, public in _MADE:
            if own.startswith(prefix):
                names.append(Offer(public + own.removeprefix(prefix), listed=True))
        best = min(names, key=lambda offer: _preference(offer, definition.module))
        others = {offer.name for offer in names} | {own}
        return best.name, sorted(others - {best.name})

    def _listed(self, definition: Definition) -> bool:
        module = self._modules[definition.module]
        return module.exports is not None and definition.qualname.partition(".")[0] in module.exports

    def _collect(self, module: Module) -> None:
        for name, target in self._bindings(module):
            found = self._resolve(target, _DEPTH)
            if found is not None and self._fits(module, name, found):
                offer = Offer(_join(shown(module.name), name), name in (module.exports or ()))
                self._offers.setdefault(found, []).append(offer)

    def _bindings(self, module: Module) -> Iterator[tuple[str, Found]]:
        """Every name that the module binds to something that it may not define itself."""
        yield from module.borrowed.items()
        for name, target in module.aliases.items():
            if name not in module.definitions:
                yield name, (module.name, target)
        for name in sorted(module.exports or ()):
            if name not in module.definitions and name not in module.borrowed:
                yield from ((name, (inner, name)) for inner in self._inner(module, name))
        for source in module.stars:
            other = self._modules.get(source)
            if other is not None:
                for name in other.exports or other.definitions:
                    if name and "." not in name and other.public(name) and name not in module.definitions:
                        yield name, (source, name)

    def _inner(self, module: Module, name: str) -> list[str]:
        """Modules of a package that define a name which the package exports by code (a late import, say)."""
        if not module.package:
            return []
        inside = module.name + "."
        return [
            other.name
            for other in self._modules.values()
            if other.name.startswith(inside) and name in other.definitions
        ]

    def _resolve(self, target: Found, depth: int) -> Found | None:
        """Module and name of a definition; None for a name outside the corpus, and for a module."""
        module, name = self._modules.get(target[0]), target[1]
        if module is None or not name or not depth:
            return None
        if name in module.definitions:
            return module.name, name
        head, _, rest = name.partition(".")
        if head in module.borrowed or head in module.aliases:
            source, there = module.borrowed.get(head) or (module.name, module.aliases[head])
            joined = f"{there}.{rest}" if there and rest else there or rest
            return self._resolve((source, joined), depth - 1)
        for source in module.stars:
            found = self._resolve((source, name), depth - 1)
            if found is not None:
                return found
        return None

    def _fits(self, module: Module, name: str, found: Found) -> bool:
        """True if the module offers the name as its own, rather than merely importing it."""
        if private(name) or not module.public(name):
            return False
        if module.name == found[0]:
            return True
        if found[0].startswith(module.name + "."):
            return True
        inner = private(found[0]) or found[0] in _INNER or found[0] in _KNOWN_AS
        return inner and (name in (module.exports or ()) or _root(module.name) == _root(found[0]))


def _preference(offer: Offer, module: str) -> tuple[bool, bool, int, bool, str]:
    home = offer.name.partition(".")[0] == _root(module)
    hidden = private(offer.name) or offer.name.partition(".")[0] in _INNER
    return hidden, not (home or offer.listed), offer.name.count("."), not home, offer.name


def _root(module: str) -> str:
    return shown(module).partition(".")[0].lstrip("_")


def _join(module: str, name: str) -> str:
    return f"{module}.{name}" if module and name else module or name or "builtins"
