"""Code of a user's service: imported files below a folder, and names of imports from elsewhere."""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB, read_file
from kwiken.export.deployments.image import NEVER_SENT

MAX_SOURCE: Final = 16 * MIB
MAX_FILES: Final = 10_000  # of Python, in a module of the user's
MAX_ENTRIES: Final = 100_000  # of any kind there
VENV: Final = "pyvenv.cfg"  # by which a folder is known as an environment
UNSAFE_CHARACTERS: Final = frozenset(
    "*?[]\\$\"'!#"
)  # of what Dockerfiles and their ignore files take for more than letters
YAML_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True)
class Code:
    """Code of a service.

    Attributes:
        paths: files and folders below the folder of the code, relative to it, sorted.
        modules: top-level modules from elsewhere that the code imports, sorted.
    """

    paths: tuple[str, ...]
    modules: tuple[str, ...]


def code_of(target: str, folder: Path, more: Sequence[str] = ()) -> Code:
    """Find the code of a service below a folder, by the imports in its text; nothing is imported.

    Args:
        target: service, as `MODULE:SERVICE`, `FILE.py:SERVICE` or `FILE.yaml`.
        folder: folder of the code, below which modules are looked for.
        more: further files and folders that the service needs, relative to the folder.

    Raises:
        InputError: a further file does not exist, lies elsewhere or looks like a secret, a module is too
            large, or a file of the code cannot be read.
    """
    name = target.partition(":")[0]
    paths = {_below(path, folder) for path in more}
    for one in paths:
        _refuse_secret(one)
    if name.endswith(YAML_SUFFIXES):
        return Code(tuple(sorted({*paths, _below(name, folder)})), ())
    foreign: set[str] = set()
    waiting: list[str] = []
    if name.endswith(".py"):
        top = _below(name, folder).split("/")[0]
        paths.add(top)
        waiting += _imported(_sources(folder / top), folder)
    else:
        waiting.append(name.split(".")[0])
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        path = _path_of(module, folder)
        if path is None:
            foreign.add(module)
            continue
        paths.add(path)
        waiting += _imported(_sources(folder / path), folder)
    return Code(tuple(sorted(paths)), tuple(sorted(foreign)))


def _below(path: str, folder: Path) -> str:
    """Path relative to the folder of the code.

    Raises:
        InputError: there is no such file or folder, it lies elsewhere, or no Dockerfile can name it.
    """
    found = (folder / path).resolve()
    if not found.exists():
        raise InputError("there is no such file", where=path)
    if not found.is_relative_to(folder.resolve()) or found == folder.resolve():
        raise InputError(f"must lie below {folder}, which is sent to the builder of the image", where=path)
    below = found.relative_to(folder.resolve()).as_posix()
    if odd := sorted({letter for letter in below if letter in UNSAFE_CHARACTERS or not letter.isprintable()}):
        letters = " ".join(ascii(letter)[1:-1] for letter in odd)
        raise InputError(
            f"has {letters} in its name, which a Dockerfile takes for more; rename it", where=path
        )
    return below


def _refuse_secret(path: str) -> None:
    for part in path.split("/"):
        if any(fnmatch.fnmatchcase(part, pattern) for pattern in NEVER_SENT):
            raise InputError(
                "is hidden or a key, and whoever pulls an image can read what is in it; hand it to the "
                "containers when they start",
                where=f"--include {path}",
            )


def _path_of(module: str, folder: Path) -> str | None:
    """Path of a top-level module below the folder; None if it is from elsewhere."""
    if (folder / module).is_dir() and _sources(folder / module):
        return module
    return f"{module}.py" if (folder / f"{module}.py").is_file() else None


def _sources(path: Path) -> list[Path]:
    """Files in Python of a module: itself, or those of its folder but in hidden folders and environments."""
    if path.is_file():
        return [path]
    found: list[Path] = []
    entries = 0
    for here, folders, files in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name != "__pycache__" and not (Path(here) / name / VENV).is_file()
        )
        entries += len(folders) + len(files)
        found += [Path(here) / name for name in sorted(files) if name.endswith(".py")]
        if entries > MAX_ENTRIES or len(found) > MAX_FILES:
            raise InputError(
                f"holds more than {MAX_FILES} files of Python or {MAX_ENTRIES} files, and all would go into "
                "the image; keep data and environments elsewhere",
                where=str(path),
            )
    return found


def _imported(sources: Sequence[Path], folder: Path) -> list[str]:
    """Top-level names of the modules that files import; of those that may be missing only what there is."""
    found: list[str] = []
    for source in sources:
        for name, needed in _imports(source):
            if needed or _path_of(name, folder) is not None or importlib.util.find_spec(name) is not None:
                found.append(name)
    return found


def _imports(source: Path) -> Iterator[tuple[str, bool]]:
    """Top-level names of the modules that a file imports anywhere, and whether it cannot do without each."""
    try:
        tree = ast.parse(read_file(source, MAX_SOURCE), filename=str(source))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=str(source)) from error
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)]
    while waiting:
        node, needed = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], needed) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], needed
        spared = _spared(node)
        waiting += [(child, needed and child not in spared) for child in ast.iter_child_nodes(node)]


def _spared(node: ast.AST) -> Sequence[ast.AST]:
    """Parts that a program does without where an import fails, or that only type checkers read."""
    if isinstance(node, ast.Try | ast.TryStar):
        caught = {
            name.id
            for handler in node.handlers
            for name in ast.walk(handler.type if handler.type is not None else ast.Name("Exception"))
            if isinstance(name, ast.Name)
        }
        if caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}:
            return [*node.body, *node.handlers]
    if isinstance(node, ast.If):
        test = node.test
        name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
        if name == "TYPE_CHECKING":
            return node.body
    return []
