"""Layout of the code: which package may import which, how large a folder is, what a wheel and a replica carry.

`WINGS` is the table of packages. A package imports only from packages that stand before it in its own wing,
and from the wings that `MAY_USE` names; it imports another package's names from that package's `__init__`.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.project.source_trees import nodes, tree

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "kwiken"

WINGS: dict[str, tuple[str, ...]] = {
    # Pure: decides, and touches no clock, socket, file or global randomness.
    "brain": (
        "kwiken.base.printable",
        "kwiken.base.errors",
        "kwiken.base.extras",
        "kwiken.base.lazy",
        "kwiken.base.arrays",
        "kwiken.base.parsing",
        "kwiken.model.service",
        "kwiken.model.plan",
        "kwiken.model.latency",
        "kwiken.model.profile",
        "kwiken.tail.curves",
        "kwiken.tail.simulation",
        "kwiken.tail.apportion",
        "kwiken.tail.partial",
        "kwiken.tail.queueing.simulator",
        "kwiken.tail.queueing.load",
        "kwiken.tail.queueing",
        "kwiken.tail.planning",
        "kwiken.tail.evaluation",
        "kwiken.tail.diagnosis",
        "kwiken.tail.advice",
        "kwiken.export",
        "kwiken.allocator.workloads",
        "kwiken.allocator.contention",
        "kwiken.allocator.placement",
        "kwiken.allocator.placement.schedulers",
        "kwiken.allocator.capacity",
        "kwiken.lab.fleet.simulator",
        "kwiken.lab.fleet",
        "kwiken.allocator.adaptation",
        "kwiken.lab.reproduction.rows",
        "kwiken.lab.reproduction.scenarios",
        "kwiken.lab.reproduction.kwiken",
        "kwiken.lab.reproduction.paragon",
        "kwiken.lab.reproduction.quasar",
        "kwiken.lab.reproduction.ibench",
        "kwiken.lab.reproduction",
        "kwiken",
    ),
    # Spans out, traces in.
    "otel": (
        "kwiken.otel.write",
        "kwiken.otel.metrics",
        "kwiken.otel.read",
        "kwiken.otel.trace",
        "kwiken.otel.fit",
        "kwiken.otel.histograms",
        "kwiken.otel",
    ),
    # What processors and memory this machine gives; on Linux's /proc and control groups.
    "machine": ("kwiken.base.machine",),
    # Executes services. `kwiken.runtime` itself holds errors, clock, tasks and files, and stands on both ends.
    "runtime": (
        "kwiken.runtime",
        "kwiken.runtime.node_classes",
        "kwiken.runtime.wire.transport",
        "kwiken.runtime.decisions",
        "kwiken.runtime.metrics",
        "kwiken.runtime.wire.foreign",
        "kwiken.runtime.wire.http_server",
        "kwiken.runtime.engine.hedged_call",
        "kwiken.runtime.engine",
        "kwiken.runtime.replica",
        "kwiken.runtime.gateway.live_page",
        "kwiken.runtime.gateway.observation",
        "kwiken.runtime.gateway",
        "kwiken.runtime.wire.grpc",
        "kwiken.runtime.process",
        "kwiken.runtime.cluster.state",
        "kwiken.runtime.cluster",
        "kwiken.runtime.probes",
        "kwiken.runtime.upkeep",
    ),
    "loadtest": (
        "kwiken.loadtest.inputs",
        "kwiken.loadtest.results",
        "kwiken.loadtest.generator",
        "kwiken.loadtest",
    ),
    "services": (
        "kwiken.services",
        "kwiken.services.search.index",
        "kwiken.services.search.stages",
        "kwiken.services.search",
        "kwiken.services.search.measures",
    ),
    "cli": (
        "kwiken.cli.shared",
        "kwiken.cli",
        "kwiken.apps.report.model",
        "kwiken.apps.report.charts",
        "kwiken.apps.report.sections",
        "kwiken.apps.report",
        "kwiken.cli.study",
        "kwiken.cli.planning",
        "kwiken.apps.demo.faults",
        "kwiken.apps.demo.setup",
        "kwiken.apps.demo.pace",
        "kwiken.apps.demo.trial",
        "kwiken.apps.demo",
        "kwiken.cli.live.placing",
        "kwiken.cli.live.gateway",
        "kwiken.cli.live",
        "kwiken.apps.demo_place",
        "kwiken.cli.allocate",
    ),
}
MAY_USE: dict[str, set[str]] = {
    "brain": set(),
    "otel": {"brain"},
    "machine": set(),
    "runtime": {"brain", "otel", "machine"},
    "loadtest": {"brain", "machine"},
    "services": {"brain", "runtime"},
    # The command names services as any user does, by MODULE:SERVICE.
    "cli": {"brain", "otel", "runtime", "machine", "loadtest"},
}
SINGLE_MODULES = WINGS["brain"][:5]  # small modules beside the packages
WING_OF = {package: wing for wing, packages in WINGS.items() for package in packages}
# Modules that other packages import whole: their names read best behind the module's.
OPEN_MODULES = {
    *(f"kwiken.{room}.notes" for room in ("apportion", "partial", "planning", "profile", "queueing.load")),
    "kwiken.runtime.wire.transport.wire",
    "kwiken.otel.read.columns",
    "kwiken.otel.metrics.catalog",
    "kwiken.apps.report.sections.sections",
    *(f"kwiken.services.search.index.{name}" for name in ("store", "synonyms", "text")),
    *(f"kwiken.services.search.stages.{name}" for name in ("lookup", "parse", "spell")),
}
MAX_FILES = 12  # Python files in one folder, `__init__` not counted
MAX_LINES = 600
CROWDED = {
    "kwiken/lab/reproduction/kwiken": "one file for each group of tables and figures of one source",
    "kwiken/otel/fit": "one inference from spans to a profile; every part of it uses the types of the others",
}
# The brain, and the runtime's decisions: clocks, files, sockets, threads and chance are handed to them.
PURE = (*(name for name in WINGS["brain"] if name != "kwiken"), "kwiken.runtime.decisions")
IMPURE = {
    *("aiohttp", "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "glob", "http", "io", "logging"),
    *("mmap", "multiprocessing", "os", "pathlib", "requests", "secrets", "select", "selectors", "shutil"),
    *("signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid", "uvloop"),
}
IMPURE_CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
SEEDED = {"BitGenerator", "Generator", "PCG64", "SeedSequence", "default_rng"}


def name_of(path: Path) -> str:
    """Full name of the module in a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# `__main__` stands above its package: it starts programs and nothing imports it.
MODULES = {name_of(path): path for path in sorted(CODE.rglob("*.py")) if path.name != "__main__.py"}


def package_of(module: str) -> str:
    """The package in the table that a module belongs to."""
    while module not in WING_OF:
        module = module.rpartition(".")[0]
        assert module, "a package is missing in WINGS"
    return module


def modules_of(*packages: str) -> Iterator[str]:
    yield from (module for module in MODULES if package_of(module) in packages)


@cache
def imports(path: Path) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """Line, module and names of every import of a file, wherever it stands; there are no relative ones."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            yield node.lineno, node.module or "", tuple(alias.name for alias in node.names)


def imported(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Line, module of ours and name of it (None for the module itself) of every import of a file."""
    for line, module, names in imports(path):
        if module.partition(".")[0] == "kwiken":
            for name in names or ("",):
                whole = f"{module}.{name}"
                yield (line, whole, None) if whole in MODULES else (line, module, name or None)


@cache
def exported(package: str) -> frozenset[str]:
    """Names in a package's `__all__`."""
    for node in tree(MODULES[package]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def listed(rule: Iterator[str]) -> str:
    return "\n".join(rule)


def test_every_package_is_in_the_table() -> None:
    folders = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    known = {*WING_OF, "kwiken.services.search"}
    assert {name for name in folders if name not in known} <= {"kwiken.tail.queueing"}
    assert not {name for name in WING_OF if name not in MODULES}


@pytest.mark.parametrize("package", WING_OF)
def test_a_package_imports_only_what_stands_below_it(package: str) -> None:
    wing = WING_OF[package]
    below = set(WINGS[wing][: WINGS[wing].index(package) + 1])

    def offences() -> Iterator[str]:
        for module in modules_of(package):
            path = MODULES[module]
            if path.name == "__init__.py" and package in {"kwiken", "kwiken.runtime", "kwiken.otel"}:
                continue  # the face of a whole wing names what stands above
            for line, target, _ in imported(path):
                other = package_of(target)
                allowed = other in below if WING_OF[other] == wing else WING_OF[other] in MAY_USE[wing]
                if not allowed:
                    yield f"{path.relative_to(ROOT)}:{line}: {package} may not import {target}"

    assert not listed(offences())


def test_other_packages_names_come_from_their_face() -> None:
    def offences() -> Iterator[str]:
        for module, path in MODULES.items():
            for line, target, name in imported(path):
                other = package_of(target)
                if other == package_of(module) or target in OPEN_MODULES or target in SINGLE_MODULES:
                    continue
                where = f"{path.relative_to(ROOT)}:{line}"
                if target != other and not (other == "kwiken.runtime" and target.count(".") == 2):
                    yield f"{where}: import {name or target} from {other}"
                elif name is not None and target == other and name not in exported(other):
                    yield f"{where}: {other} does not export {name}"

    assert not listed(offences())


def test_no_face_exports_what_nobody_imports() -> None:
    used = {(target, name) for path in MODULES.values() for _, target, name in imported(path)}
    told = "\n".join(
        page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    )
    open_to_users = {
        "kwiken",
        "kwiken.runtime",
        "kwiken.otel",
        "kwiken.loadtest",
        "kwiken.cli",
        "kwiken.services.search",
    }

    def offences() -> Iterator[str]:
        for package in WING_OF.keys() - open_to_users:
            if MODULES[package].name == "__init__.py":
                for name in exported(package):
                    if (package, name) not in used and f"`{name}" not in told:
                        yield f"{package} exports {name}, which no other package and no document uses"

    assert not listed(offences())


def test_no_file_is_in_a_circle_of_imports() -> None:
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if path.name != "__init__.py":
            graph[module] = {
                target
                for _, target, _ in imported(path)
                if target in MODULES and MODULES[target].name != "__init__.py"
            }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_folders_are_small() -> None:
    def offences() -> Iterator[str]:
        for folder in sorted({path.parent for path in MODULES.values()}):
            place = str(folder.relative_to(ROOT))
            count = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
            if count > MAX_FILES and place not in CROWDED:
                yield f"{place} holds {count} files; {MAX_FILES} is the most without a reason in CROWDED"
            if count <= MAX_FILES and place in CROWDED:
                yield f"{place} holds {count} files and needs no reason in CROWDED"

    assert not listed(offences())


def test_files_are_short() -> None:
    def offences() -> Iterator[str]:
        for path in (*MODULES.values(), *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py")):
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > MAX_LINES:
                yield f"{path.relative_to(ROOT)} has {lines} lines; {MAX_LINES} is the most"

    assert not listed(offences())


def test_decisions_touch_nothing() -> None:
    def offences() -> Iterator[str]:
        for module in modules_of(*PURE):
            if module == "kwiken.base.lazy":  # loads modules, which is all it is for
                continue
            path = MODULES[module]
            place = path.relative_to(ROOT)
            for line, target, _ in imports(path):
                if target.partition(".")[0] in IMPURE:
                    yield f"{place}:{line}: imports {target}"
            for node in nodes(path):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in IMPURE_CALLS
                ):
                    yield f"{place}:{node.lineno}: calls {node.func.id}"

    assert not listed(offences())


def test_chance_is_handed_in() -> None:
    def offences() -> Iterator[str]:
        for module in modules_of(*PURE):
            path = MODULES[module]
            for node in nodes(path):
                where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                    owner = ast.unparse(node.value)
                    if owner in {"np.random", "numpy.random"} and node.attr not in SEEDED:
                        yield f"{where}: np.random.{node.attr} is global"
                    if owner == "random" and node.attr != "Random":
                        yield f"{where}: random.{node.attr} is global"
                elif (
                    isinstance(node, ast.Call)
                    and not node.args
                    and ast.unparse(node.func).endswith("default_rng")
                ):
                    yield f"{where}: default_rng without a seed"

    assert not listed(offences())


def test_nothing_is_unpickled_or_evaluated() -> None:
    def offences() -> Iterator[str]:
        for path in MODULES.values():
            for line, module, _ in imports(path):
                if module.partition(".")[0] in {"pickle", "marshal", "shelve", "dill", "cloudpickle"}:
                    yield f"{path.relative_to(ROOT)}:{line}: imports {module}"
            for node in nodes(path):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in {"eval", "exec"}
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: calls {node.func.id}"

    assert not listed(offences())


@pytest.mark.parametrize("package", [name for name in WING_OF if MODULES[name].name == "__init__.py"])
def test_every_exported_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert sorted(set(names)) == sorted(names)
    missing = [name for name in names if not hasattr(module, name)]
    assert not missing
    with pytest.raises(AttributeError):
        module.no_such_name  # noqa: B018 - the lookup is the test


def test_the_wheel_holds_one_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name) for name in archive.namelist()}
        entry_points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "kwiken = kwiken.cli:main" in archive.read(entry_points).decode()
    info = {path for path in held if path.parts[0].endswith(".dist-info")}
    assert any(path.name == "LICENSE" for path in info)
    on_disk = {
        path.relative_to(ROOT)
        for path in CODE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held - info == on_disk
    assert CODE / "py.typed" in CODE.iterdir()


def loaded_by(code: str) -> set[str]:
    """Modules in a fresh interpreter after it ran some code from the root of the tree."""
    program = f"import sys; {code}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


HEAVY = {"locust", "networkx", "numpy", "opentelemetry.sdk", "rich", "scipy", "yaml"}


def test_a_replica_starts_without_the_heavy_libraries() -> None:
    code = "import kwiken.runtime.process.server_process, kwiken.runtime.replica.server"
    assert not loaded_by(code) & (HEAVY | {"aiohttp"})


def test_a_replica_knows_no_plans_and_no_version_before_it_is_asked() -> None:
    """Each replica of a cluster pays for what a start imports."""
    code = "import kwiken.runtime.process.server_process, kwiken.runtime.replica.server"
    assert not loaded_by(code) & {
        "importlib.metadata",
        "kwiken.model.plan",
        "kwiken.runtime.decisions.program",
    }


@pytest.mark.parametrize("program", ["guard", "record_inputs", "run_stage"])
def test_the_programs_of_a_probe_start_without_the_heavy_libraries(program: str) -> None:
    assert not loaded_by(f"import kwiken.runtime.probes.{program}") & HEAVY


def test_a_plan_is_read_without_numpy() -> None:
    assert not loaded_by("from kwiken import Budgets, Plan, Service, StagePlan") & HEAVY


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    assert not loaded_by("import kwiken.cli") & (HEAVY | {"aiohttp", "kwiken.model.plan"})


def test_no_face_exports_a_name_of_its_own_modules() -> None:
    """`from package import name` would be the module or the function, by which was loaded last."""

    def offences() -> Iterator[str]:
        for package in WING_OF:
            if MODULES[package].name == "__init__.py":
                yield from (
                    f"{package}.{name}" for name in exported(package) if f"{package}.{name}" in MODULES
                )

    assert not listed(offences())
