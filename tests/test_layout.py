"""The rooms of the house: who may import whom, how long a file may be, what a wheel and a replica carry."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("kwiken", "otel", "runtime", "loadtest", "cli")
MAY_IMPORT: dict[str, set[str]] = {
    "kwiken": set(),
    "otel": {"kwiken"},
    "runtime": {"kwiken", "otel"},
    "services": {"kwiken", "otel", "runtime"},
    "loadtest": {"kwiken"},
    # The wheel holds no services, so the command names them as any user would, by MODULE:SERVICE.
    "cli": {"kwiken", "otel", "runtime", "loadtest"},
}
# The brain decides; clocks, files, sockets, threads and chance are handed to it.
IMPURE = {
    *(
        "aiohttp",
        "asyncio",
        "concurrent",
        "ctypes",
        "datetime",
        "fcntl",
        "glob",
        "http",
        "io",
        "logging",
        "mmap",
    ),
    *("multiprocessing", "os", "pathlib", "random", "requests", "secrets", "select", "selectors", "shutil"),
    *("signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid", "uvloop"),
}
IMPURE_CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
SEEDED = {"BitGenerator", "Generator", "PCG64", "SeedSequence", "default_rng"}
MAX_LINES = 600


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Line, module and names of every import of a file, wherever it stands; relative ones made absolute."""
    here = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else ()
            module = ".".join((*base, *((node.module,) if node.module else ())))
            yield node.lineno, module, tuple(alias.name for alias in node.names)


def broken(rule: Iterator[str]) -> str:
    return "\n".join(rule)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    def offences() -> Iterator[str]:
        for path in sources(package):
            for line, module, _ in imports(path):
                top = module.partition(".")[0]
                if top in {*MAY_IMPORT, "tests", "benchmarks"} - {package} and top not in MAY_IMPORT[package]:
                    yield f"{path.relative_to(ROOT)}:{line}: {package} may not import {module}"

    assert not broken(offences())


@pytest.mark.parametrize("package", [*MAY_IMPORT, "benchmarks"])
def test_private_modules_stay_private(package: str) -> None:
    def offences() -> Iterator[str]:
        for path in sources(package):
            for line, module, names in imports(path):
                top = module.partition(".")[0]
                if top not in MAY_IMPORT or top == package:
                    continue
                for part in (*module.split("."), *names):
                    if part.startswith("_"):
                        yield f"{path.relative_to(ROOT)}:{line}: {part} is private to {top}"

    assert not broken(offences())


def test_the_brain_touches_nothing() -> None:
    def offences() -> Iterator[str]:
        for path in sources("kwiken"):
            place = path.relative_to(ROOT)
            for line, module, _ in imports(path):
                if module.partition(".")[0] in IMPURE:
                    yield f"{place}:{line}: imports {module}"
            for node in ast.walk(tree(path)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in IMPURE_CALLS
                ):
                    yield f"{place}:{node.lineno}: calls {node.func.id}"

    assert not broken(offences())


def test_the_brain_draws_only_from_what_it_is_given() -> None:
    def offences() -> Iterator[str]:
        for path in sources("kwiken"):
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {
                    "np.random",
                    "numpy.random",
                }:
                    if node.attr not in SEEDED:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}: np.random.{node.attr} is global"
                elif (
                    isinstance(node, ast.Call)
                    and ast.unparse(node.func).endswith("default_rng")
                    and not node.args
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: default_rng without a seed"

    assert not broken(offences())


def test_nothing_is_unpickled_or_evaluated() -> None:
    def offences() -> Iterator[str]:
        for path in sources(*MAY_IMPORT):
            for line, module, _ in imports(path):
                if module.partition(".")[0] in {"pickle", "marshal", "shelve", "dill", "cloudpickle"}:
                    yield f"{path.relative_to(ROOT)}:{line}: imports {module}"
            for node in ast.walk(tree(path)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in {"eval", "exec"}
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: calls {node.func.id}"

    assert not broken(offences())


def test_files_are_short() -> None:
    def offences() -> Iterator[str]:
        for path in sources(*MAY_IMPORT, "tests", "benchmarks"):
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > MAX_LINES:
                yield f"{path.relative_to(ROOT)} has {lines} lines; {MAX_LINES} is the most"

    assert not broken(offences())


@pytest.mark.parametrize("package", SHIPPED)
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert sorted(set(names)) == sorted(names)
    missing = [name for name in names if not hasattr(module, name)]
    assert not missing
    lazy = getattr(module, "_LAZY", {})
    assert set(lazy) <= set(names)
    with pytest.raises(AttributeError):
        module.no_such_name  # noqa: B018 - the lookup is the test


@pytest.mark.parametrize("package", SHIPPED)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name) for name in archive.namelist()}
        entry_points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "kwiken = cli:main" in archive.read(entry_points).decode()
    info = {path for path in held if path.parts[0].endswith(".dist-info")}
    assert {path.parts[0] for path in held - info} == set(SHIPPED)
    assert any(path.name == "LICENSE" for path in info)
    on_disk = {
        path.relative_to(ROOT)
        for package in SHIPPED
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held - info == on_disk


def loaded_by(code: str) -> set[str]:
    """Modules in a fresh interpreter after it ran some code from the root of the tree."""
    program = f"import sys; {code}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


HEAVY = {"locust", "matplotlib", "networkx", "numpy", "opentelemetry.sdk", "rich", "scipy", "yaml"}


def test_a_replica_starts_without_the_heavy_libraries() -> None:
    assert not loaded_by("import kwiken, runtime, otel") & HEAVY


def test_a_plan_is_read_without_numpy() -> None:
    assert not loaded_by("from kwiken import Budgets, Plan, Service, StagePlan") & HEAVY


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    assert not loaded_by("import cli") & (HEAVY | {"aiohttp", "kwiken._plan"})
