"""Search corpus: everything documented in this Python's standard library, under its public name."""

from __future__ import annotations

import math
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from kwiken.base.errors import InputError
from kwiken.services.search.index import native as native_module, source as source_module
from kwiken.services.search.index.names import DefinedNames, private, shown
from kwiken.services.search.index.source import Definition, Module

# In the source of a module that announces its removal.
_DEPRECATED = re.compile(
    r"^(_DEPRECATION_MESSAGE =|warnings\._deprecated\(|_deprecated\(__name__)", re.MULTILINE
)
_CALL = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\(")
_DOTTED = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)")
MAX_TEXT = 60_000  # characters of a document
DEPRECATED_PENALTY = 0.4  # of the prior of what a deprecated module defines


class Document(Struct, frozen=True):
    """Document of the corpus: one definition or topic.

    Attributes:
        kind: module, class, function, method, property or topic.
        text: docstring; for the few public things without one, the comment above them.
        path: source file relative to the library; empty for a definition in C.
        line: line in that file, from 1; 0 where there is no file.
        aliases: its other names, the defining one among them.
        prior: weight whatever the query, as the natural logarithm of a factor; higher for a name that much of
            the library uses, lower for a private one.
    """

    kind: str
    name: str
    title: str
    signature: str
    text: str
    path: str
    line: int
    aliases: list[str]
    prior: float


def library() -> Path:
    """Folder of the standard library's source."""
    return Path(sysconfig.get_path("stdlib"))


def corpus(folder: Path | None = None) -> list[Document]:
    """All documents, in an order that depends on the library alone.

    Args:
        folder: a library other than this interpreter's; its C modules and topics are then left out.

    Raises:
        InputError: where the folder holds no Python source.
    """
    root = folder if folder is not None else library()
    modules = _modules(root, native=folder is None)
    if not modules:
        raise InputError(
            "holds no Python source to search; is the standard library installed?", where=str(root)
        )
    names = DefinedNames(modules)
    deprecated = {name for name, module in modules.items() if _DEPRECATED.search(module.source)}
    used = _uses(modules)
    chosen: dict[str, tuple[Definition, list[str]]] = {}
    for module in modules.values():
        for definition in module.definitions.values():
            if definition.text or _listed(module, definition):
                _merge(chosen, definition, names)
    documents = [_document(name, *found, used, deprecated) for name, found in chosen.items()]
    if folder is None:
        documents.extend(_topics())
    return sorted(documents, key=lambda document: (document.name, document.kind))


def _modules(root: Path, *, native: bool) -> dict[str, Module]:
    found: dict[str, Module] = {}
    for name, path in source_module.files(root):
        module = source_module.read(root, name, path)
        if module is not None:
            found[name] = module
    for module in native_module.modules() if native else ():
        found.setdefault(module.name, module)
    return found


def _listed(module: Module, definition: Definition) -> bool:
    """True for a class or function that its module exports, which is a document even without text."""
    return definition.qualname in (module.exports or ()) and not private(
        f"{shown(module.name)}.{definition.qualname}"
    )


def _merge(
    chosen: dict[str, tuple[Definition, list[str]]], definition: Definition, names: DefinedNames
) -> None:
    """Keep one definition for each name: documented before not, then public, then in Python, then longer."""
    name, others = names.of(definition)
    old, known = chosen.get(name, (None, []))
    aliases = sorted({*known, *others})
    keep = old is not None and (_quality(old) >= _quality(definition))
    chosen[name] = (old if old is not None and keep else definition, aliases)


def _quality(definition: Definition) -> tuple[bool, bool, bool, int]:
    in_python = bool(definition.path)
    return definition.documented, not private(definition.module), in_python, len(definition.text)


def _document(
    name: str, definition: Definition, aliases: list[str], used: Mapping[str, int], deprecated: set[str]
) -> Document:
    kind = definition.kind
    if kind == "method" and definition.qualname.count(".") == 1 and name.count(".") == 1:
        kind = _kind_of_alias(name, definition)
    prior = _prior(name, kind, definition, max(used.get(item, 0) for item in (name, *aliases)))
    if not deprecated.isdisjoint((definition.module, definition.module.partition(".")[0])):
        prior -= DEPRECATED_PENALTY
    return Document(
        kind=kind,
        name=name,
        title=name,
        signature=definition.signature,
        text=definition.text[:MAX_TEXT],
        path=definition.path,
        line=definition.line,
        aliases=aliases,
        prior=prior,
    )


def _kind_of_alias(name: str, definition: Definition) -> str:
    """Kind of a method with a short public name: a method if the name begins with its class, else a function.

    `random.randint` is a method of an instance that the module hides, and callers use it as a function.
    """
    owner = definition.qualname.partition(".")[0]
    return "method" if name.partition(".")[0] == owner else "function"


def _prior(name: str, kind: str, definition: Definition, used: int) -> float:
    """Log of the factor by which a document is preferred to others that match a query as well."""
    prior = 0.12 * math.log1p(used)
    prior += {"module": 0.15, "class": 0.1, "function": 0.1, "property": -0.25}.get(kind, -0.15)
    if private(name) or (not definition.path and private(definition.module) and name.startswith("_")):
        prior -= 0.8
    if not definition.documented:
        prior -= 0.2
    return prior - 0.05 * max(0, name.count(".") - 1)


def _uses(modules: Mapping[str, Module]) -> Counter[str]:
    """Number of modules of the library that import each name, or read it from an imported module."""
    used: Counter[str] = Counter()
    for module in modules.values():
        used.update(_used_by(module))
    return used


def _used_by(module: Module) -> set[str]:
    seen: set[str] = set()
    for source, name in module.borrowed.values():
        seen.add(shown(source))
        if name:
            seen.add(f"{shown(source)}.{name}")
    for left, right in set(_DOTTED.findall(module.source)):
        source, name = module.borrowed.get(left, ("", ""))
        if source and source != module.name:
            seen.add(".".join(part for part in (shown(source), name, right) if part))
    seen.update(set(_CALL.findall(module.source)) - module.definitions.keys() - module.borrowed.keys())
    return seen


def _topics() -> Iterable[Document]:
    """The language reference's topics that `help()` shows; some builds of Python lack them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return
    for key, text in sorted(topics.items()):
        heading, _, rest = str(text).strip().partition("\n")
        yield Document(
            kind="topic",
            name=key,
            title=heading.strip() or key,
            signature="",
            text=rest.lstrip("*=-\n ")[:MAX_TEXT],
            path="pydoc_data/topics.py",
            line=0,
            aliases=[],
            prior=0.0,
        )
