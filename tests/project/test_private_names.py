"""Private names of libraries that kwiken uses: each has a reason, stands in the library, and bounds its version."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER: Final = "kwiken/runtime/wire/http_server/aiohttp_server.py"
# By library: module, class (None for none), name, file that uses the name, and the reason.
PRIVATE: Final = {
    "aiohttp": (
        ("web_protocol", "RequestHandler", "_messages", SERVER, "requests sent ahead have no public view"),
        (
            *("web_protocol", "RequestHandler", "_request_in_progress", SERVER),
            "a half-closed connection is idle, or waits for an answer",
        ),
        ("web_server", "Server", "_connections", SERVER, "the public list is copied for each new client"),
    ),
    "geventhttpclient": (
        (
            *("_parser", None, "HTTPResponseParser", "kwiken/loadtest/generator/client.py"),
            "the parser in C without the client, whose answers cost three times the processor time",
        ),
    ),
}
NAMES: Final = [(library, *use) for library, uses in PRIVATE.items() for use in uses]


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]


@pytest.mark.parametrize("library", PRIVATE)
def test_a_library_of_which_private_names_are_used_has_an_upper_bound(library: str) -> None:
    (bound,) = [one for one in requirements() if one.startswith(f"{library}>")]
    assert ",<" in bound, bound


@pytest.mark.parametrize(("library", "module", "kind", "name", "file", "reason"), NAMES)
def test_a_private_name_stands_in_the_library(
    library: str, module: str, kind: str | None, name: str, file: str, reason: str
) -> None:
    assert len(reason.split()) > 5
    found = importlib.import_module(f"{library}.{module}")
    if kind is None:
        assert hasattr(found, name)
    else:  # set by the constructor of the class
        assert f"self.{name}" in inspect.getsource(getattr(found, kind))
    assert name in (ROOT / file).read_text(encoding="utf-8")


def test_no_other_private_name_of_aiohttps_server_is_used() -> None:
    """Private names that classes of the server read, and neither they nor their table define."""
    known = {name for _, _, _, name, _, _ in NAMES}
    for kind in ast.walk(ast.parse((ROOT / SERVER).read_text(encoding="utf-8"))):
        if not isinstance(kind, ast.ClassDef):
            continue
        own = {one.name for one in kind.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        attributes = [one for one in ast.walk(kind) if isinstance(one, ast.Attribute)]
        own |= {one.attr for one in attributes if isinstance(one.ctx, ast.Store)}
        read = {one.attr for one in attributes if one.attr.startswith("_") and not one.attr.startswith("__")}
        assert read - own <= known, kind.name


def test_no_module_of_kwiken_imports_private_names_of_libraries() -> None:
    used = {(library, module) for library, module, *_ in NAMES}
    for file in (ROOT / "kwiken").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                library, _, module = node.module.partition(".")
                if library in {"aiohttp", "geventhttpclient", "grpc", "grpc_reflection", "grpc_health"}:
                    names = [part for part in (*module.split("."), *(one.name for one in node.names)) if part]
                    private = [one for one in names if one.startswith("_")]
                    assert not private or (library, module) in used, f"{file}: {node.module} {private}"
