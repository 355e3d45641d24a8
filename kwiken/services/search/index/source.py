"""Reader of Python source by syntax alone: definitions, exports and imports of a module."""

from __future__ import annotations

import ast
import inspect
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Trees that hold no documentation of the library itself.
SKIP_FOLDERS = frozenset(
    ("test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "dist-packages", "__pycache__")
)
MAX_SIGNATURE = 400
MAX_FILE = 4_000_000

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Definition:
    """Documented definition.

    Attributes:
        module: where it is defined, such as `asyncio.tasks`.
        qualname: its name there, such as `Queue.get`; empty for the module itself.
        kind: module, class, function, method or property.
        signature: parameters as written, without `self`.
        text: its docstring, or the comment above it.
        path: source file relative to the library; empty for C.
        line: in that file, from 1.
        documented: whether it has a docstring of its own.
    """

    module: str
    qualname: str
    kind: str
    signature: str = ""
    text: str = ""
    path: str = ""
    line: int = 0
    documented: bool = True


@dataclass(slots=True)
class Module:
    """Definitions, exports and imports of one module.

    Attributes:
        package: whether it is a package's `__init__`.
        exports: names in `__all__`; None where it has none.
        open_ended: whether `__all__` is built from more than can be read without running it.
        borrowed: name here -> (module, name there); the name there is empty for a module.
        aliases: name here -> dotted name in this module that it is another name of.
    """

    name: str
    package: bool
    definitions: dict[str, Definition] = field(default_factory=dict)
    exports: set[str] | None = None
    open_ended: bool = False
    borrowed: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    source: str = ""

    def public(self, name: str) -> bool:
        """True if the module exports the name."""
        if self.exports is not None and name in self.exports:
            return True
        return (self.exports is None or self.open_ended) and not name.startswith("_")


def files(library: Path) -> Iterator[tuple[str, Path]]:
    """Module name and file of every module of the library's source, in a fixed order."""
    for folder, inner, names in os.walk(library):
        inner[:] = sorted(name for name in inner if name not in SKIP_FOLDERS and name.isidentifier())
        package = ".".join(Path(folder).relative_to(library).parts)
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a replica walks these 600 at every start
            if suffix == ".py" and stem.isidentifier():
                inside = f"{package}.{stem}" if package else stem
                yield package if stem == "__init__" else inside, Path(folder, name)


def read(library: Path, name: str, path: Path) -> Module | None:
    """The module in that file; None where it is no Python of this version, or of absurd size."""
    if path.stat().st_size > MAX_FILE:
        return None
    try:
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    module = Module(name=name, package=path.stem == "__init__", source=source)
    reader = _Reader(module, path.relative_to(library).as_posix(), source.splitlines())
    reader.read(tree)
    return module


class _Reader:
    """Collects what the statements of a module's top level bind."""

    def __init__(self, module: Module, path: str, lines: list[str]) -> None:
        self.module = module
        self.path = path
        self.lines = lines
        self.instances: dict[str, str] = {}

    def read(self, tree: ast.Module) -> None:
        text = _docstring(tree)
        self.module.definitions[""] = Definition(
            self.module.name, "", "module", text=text, path=self.path, line=1, documented=bool(text)
        )
        for node in _statements(tree.body):
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            self._class(node, "")
        elif isinstance(node, Function):
            self._define(node, "", "function")
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif isinstance(node, ast.Import):
            for item in node.names:
                target = item.name if item.asname else item.name.partition(".")[0]
                self.module.borrowed[item.asname or target] = (target, "")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.AugAssign):
            self._export(node.target, node.value, extend=True)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._export_call(node.value)

    def _class(self, node: ast.ClassDef, outer: str) -> None:
        self._define(node, outer, "class")
        for child in _statements(node.body):
            if isinstance(child, ast.ClassDef):
                self._class(child, f"{outer}{node.name}.")
            elif isinstance(child, Function):
                self._define(child, f"{outer}{node.name}.", "property" if _is_property(child) else "method")

    def _define(self, node: ast.ClassDef | Function, outer: str, kind: str) -> None:
        qualname = outer + node.name
        text = _docstring(node)
        old = self.module.definitions.get(qualname)
        if old is not None and (old.documented or not text):
            return  # the first branch of an `if`, the getter of a property
        self.module.definitions[qualname] = Definition(
            module=self.module.name,
            qualname=qualname,
            kind=kind,
            signature="" if kind == "property" else _signature(node, method=bool(outer)),
            text=text or self._comment_above(node) or _init_text(node),
            path=self.path,
            line=node.lineno,
            documented=bool(text),
        )

    def _comment_above(self, node: ast.stmt) -> str:
        """The comment block that stands right above a definition, as pydoc shows it too."""
        decorators = getattr(node, "decorator_list", [])
        at = min([node.lineno, *(item.lineno for item in decorators)]) - 2
        block: list[str] = []
        while at >= 0 and self.lines[at].lstrip().startswith("#") and len(block) < 40:  # noqa: PLR2004
            block.append(self.lines[at].strip().lstrip("#").strip())
            at -= 1
        return "\n".join(reversed(block)).strip("-=\n ")

    def _import_from(self, node: ast.ImportFrom) -> None:
        source = self._absolute(node)
        for item in node.names:
            if item.name == "*":
                self.module.stars.append(source)
            else:
                self.module.borrowed.setdefault(item.asname or item.name, (source, item.name))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.module.name.split(".")
        keep = len(parts) - node.level + self.module.package
        return ".".join([*parts[:keep], *([node.module] if node.module else [])])

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        if target.id == "__all__":
            self._export(target, value, extend=False)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            self.instances[target.id] = value.func.id
        elif isinstance(value, ast.Name):
            self.module.aliases[target.id] = value.id
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            # randint = _inst.randint, where _inst = Random(): another name of Random.randint
            owner = self.instances.get(value.value.id, value.value.id)
            self.module.aliases[target.id] = f"{owner}.{value.attr}"

    def _export(self, target: ast.expr, value: ast.expr, *, extend: bool) -> None:
        if not (isinstance(target, ast.Name) and target.id == "__all__"):
            return
        old = self.module.exports if extend and self.module.exports else set()
        self.module.exports = old | set(self._strings(value))

    def _export_call(self, call: ast.Call) -> None:
        """`__all__.append("name")` and `__all__.extend([...])`."""
        named = call.func
        if (
            isinstance(named, ast.Attribute)
            and isinstance(named.value, ast.Name)
            and named.value.id == "__all__"
        ):
            for argument in call.args:
                self._export(named.value, argument, extend=True)

    def _strings(self, value: ast.expr) -> Iterator[str]:
        """Names in an `__all__` expression, as far as they are written out."""
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.List | ast.Tuple):
            for item in value.elts:
                yield from self._strings(item)
        elif isinstance(value, ast.BinOp):
            yield from self._strings(value.left)
            yield from self._strings(value.right)
        elif isinstance(value, ast.Starred):
            yield from self._strings(value.value)
        else:
            self.module.open_ended = True


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the `if`, `try` and `with` blocks in it, in order."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(node, name, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)


def _docstring(node: ast.Module | ast.ClassDef | Function) -> str:
    return (ast.get_docstring(node, clean=True) or "").strip()


def _init_text(node: ast.ClassDef | Function) -> str:
    init = _init(node)
    return _docstring(init) if init is not None else ""


def _init(node: ast.ClassDef | Function) -> Function | None:
    if not isinstance(node, ast.ClassDef):
        return None
    makers = {child.name: child for child in node.body if isinstance(child, Function)}
    return makers.get("__init__") or makers.get("__new__")


def _signature(node: ast.ClassDef | Function, *, method: bool) -> str:
    if isinstance(node, ast.ClassDef):
        init = _init(node)
        return _signature(init, method=True) if init is not None else ""
    text = ast.unparse(node.args)
    if method and not any(_name(item) == "staticmethod" for item in node.decorator_list):
        first, _, rest = text.partition(",")
        if first.strip().partition(":")[0] in {"self", "cls", "mcs", "metacls"}:
            text = rest.strip().removeprefix("/").lstrip(", ")
    text = inspect.cleandoc(text)
    return f"({text[:MAX_SIGNATURE]}{'...' if len(text) > MAX_SIGNATURE else ''})"


def _is_property(node: Function) -> bool:
    return any(_name(item) in {"property", "cached_property"} for item in node.decorator_list)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
