"""Code of a user's service: the files below a folder that its module imports, and what else they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.base.machine import MIB, read_file

MAX_SOURCE: Final = 16 * MIB
MAX_FILES: Final = 10_000  # of a user's code
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
        InputError: a further file does not exist or lies elsewhere, or a file of the code cannot be read.
    """
    name = target.partition(":")[0]
    paths = {_below(path, folder) for path in more}
    foreign: set[str] = set()
    if name.endswith(YAML_SUFFIXES):
        return Code(tuple(sorted({*paths, _below(name, folder)})), ())
    first = _below(name, folder).split("/")[0].removesuffix(".py") if name.endswith(".py") else name
    waiting = [first.split(".")[0]]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        files = _files_of(module, folder)
        if files is None:
            foreign.add(module)
            continue
        path, sources = files
        paths.add(path)
        waiting += [one for source in sources for one in _imports(source)]
    return Code(tuple(sorted(paths)), tuple(sorted(foreign)))


def _below(path: str, folder: Path) -> str:
    """Path relative to the folder of the code.

    Raises:
        InputError: there is no such file or folder, or it lies elsewhere.
    """
    found = (folder / path).resolve()
    if not found.exists():
        raise InputError("there is no such file", where=path)
    if not found.is_relative_to(folder.resolve()) or found == folder.resolve():
        raise InputError(f"must lie below {folder}, which is sent to the builder of the image", where=path)
    return found.relative_to(folder.resolve()).as_posix()


def _files_of(module: str, folder: Path) -> tuple[str, list[Path]] | None:
    """Path of a top-level module below the folder, and its files in Python; None if it is from elsewhere."""
    package, file = folder / module, folder / f"{module}.py"
    if package.is_dir() and any(package.rglob("*.py")):
        sources = sorted(package.rglob("*.py"))
        if len(sources) > MAX_FILES:
            raise InputError(f"holds more than {MAX_FILES} files of Python", where=str(package))
        return module, sources
    if file.is_file():
        return f"{module}.py", [file]
    return None


def _imports(source: Path) -> Iterator[str]:
    """Top-level names of the modules that a file imports, anywhere in it."""
    try:
        tree = ast.parse(read_file(source, MAX_SOURCE), filename=str(source))
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(source)) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]
