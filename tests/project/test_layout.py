"""Layout of the code: which package may import which, how large a folder is, what a wheel and a replica carry.

`tests/support/project/wings.py` is the table of packages. A package imports only from packages that stand before
it in its own wing, and from the wings that `MAY_USE` names. Every import names the module that defines the name;
the `__init__` of a package holds its docstring alone, but for the DOORS that users import.
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

from tests.support.project import source_trees
from tests.support.project.room_arrows import modules, rooms_of
from tests.support.project.source_trees import nodes, tree
from tests.support.project.wings import BRAIN, MAY_USE, SECOND_HALF, WINGS, in_second_half

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "kwiken"

WING_OF = {package: wing for wing, packages in WINGS.items() for package in packages}
DOORS = (
    "kwiken",
    "kwiken.hedge",
    "kwiken.runtime",
    "kwiken.otel",
    "kwiken.loadtest",
    "kwiken.testing",
    "kwiken.cli",
    "kwiken.services.search",
)
MAX_ENTRIES = 12  # Python files and folders in one folder; `__init__` and `__main__` are not counted
KNOWN_DOUBLES = {"Answer", "Cluster", "Correction", "Request"}
MAX_ROOMS, MAX_ARROWS = 22, 110  # of the picture of `kwiken/`, and of each wing
MAX_SHARE_OF = {
    CODE: 18,  # the wings, which are the drawing of the architecture
    ROOT / "papers": 20,  # a folder for each source
}
MAX_LINES = 600
# The brain and the runtime's decisions: clocks, files, sockets, threads and chance are handed to them.
PURE = (
    *(package for wing in (*sorted(BRAIN), "papers") for package in WINGS[wing] if package != "papers.plots"),
    "kwiken.runtime.decisions.choice",
    "kwiken.runtime.decisions",
)
IMPURE = {
    *("aiohttp", "asyncio", "concurrent", "ctypes", "fcntl", "glob", "http", "io", "logging"),
    *("mmap", "multiprocessing", "os", "pathlib", "requests", "secrets", "select", "selectors", "shutil"),
    *("signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid", "uvloop"),
}
IMPURE_CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
CLOCK_READS = {"now", "utcnow", "today"}  # of `datetime`, which documents may use for the dates in them
SEEDED = {"BitGenerator", "Generator", "PCG64", "SeedSequence", "default_rng"}


MODULES = modules()


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
        if module.partition(".")[0] in {"kwiken", "papers"}:
            for name in names or ("",):
                whole = f"{module}.{name}"
                yield (line, whole, None) if whole in MODULES else (line, module, name or None)


def exported(package: str) -> frozenset[str]:
    """Names that a package's face offers."""
    return source_trees.exported(MODULES[package])


def listed(rule: Iterator[str]) -> str:
    return "\n".join(rule)


def test_every_package_is_in_the_table() -> None:
    folders = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert not folders - {*WING_OF}
    assert not {name for name in WING_OF if name not in MODULES}


@pytest.mark.parametrize("package", WING_OF)
def test_a_package_imports_only_what_stands_below_it(package: str) -> None:
    wing = WING_OF[package]
    below = set(WINGS[wing][: WINGS[wing].index(package) + 1])

    def offences() -> Iterator[str]:
        for module in modules_of(package):
            path = MODULES[module]
            for line, target, _ in imported(path):
                other = package_of(target)
                allowed = other in below if WING_OF[other] == wing else WING_OF[other] in MAY_USE[wing]
                if not allowed:
                    yield f"{path.relative_to(ROOT)}:{line}: {package} may not import {target}"

    assert not listed(offences())


def test_the_first_half_never_imports_the_second() -> None:
    """The half that buys p99 works without the half that sizes and places."""

    def offences() -> Iterator[str]:
        for module, path in MODULES.items():
            if module.startswith("kwiken") and not in_second_half(module):
                for line, target, _ in imported(path):
                    if in_second_half(target):
                        yield f"{path.relative_to(ROOT)}:{line}: imports {target} of the other half"

    assert not listed(offences())
    assert all(
        any(in_second_half(module) for module in MODULES if module.startswith(one)) for one in SECOND_HALF
    )


def test_verbs_of_the_second_half_are_known_by_their_table(tmp_path: Path) -> None:
    """Taking the half that places away leaves a working command without its verbs."""
    for path in CODE.rglob("*"):
        place = tmp_path / path.relative_to(ROOT)
        module = ".".join(place.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
        if path.is_file() and "__pycache__" not in path.parts and not in_second_half(module):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from kwiken.cli import main; main()"
    cases = (
        (["--help"], "advise", "classify"),
        (["up", "--help"], "--replicas", "--prices"),
        (["export", "--help"], "|envoy|", "|karpenter|"),
    )
    for words, kept, gone in cases:
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert kept in done.stdout
        assert gone not in done.stdout


def test_only_doors_offer_names() -> None:
    """The `__init__` of every other package holds its docstring, and users import nothing from it."""

    def offences() -> Iterator[str]:
        for package, path in MODULES.items():
            if path.name == "__init__.py" and package not in DOORS and len(tree(path).body) > 1:
                yield f"{path.relative_to(ROOT)} holds more than a docstring"

    assert not listed(offences())


def test_imports_name_the_module_that_defines_the_name() -> None:
    """Doors are for users: code of the project does not import through them."""

    def offences() -> Iterator[str]:
        for module, path in MODULES.items():
            for line, target, name in imported(path):
                passed_on = target in DOORS and target != "kwiken.cli"  # which defines its names itself
                if passed_on and name in exported(target) and not module.startswith("kwiken.services"):
                    yield f"{path.relative_to(ROOT)}:{line}: import {name} from the module that defines it"

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


def room_of(module: str) -> str:
    """Room of a module: the folder or module at the second level of `kwiken/`."""
    return ".".join(module.split(".")[:3])


def test_no_room_is_in_a_circle_of_imports() -> None:
    """Faces are left out: they only pass names on."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if room_of(module) != module or path.name != "__init__.py":
            targets = {room_of(target) for _, target, _ in imported(path)}
            graph.setdefault(room_of(module), set()).update(targets - {room_of(module)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    "folder", ["kwiken", *sorted({".".join(name.split(".")[:2]) for name in WING_OF} - {"kwiken"})]
)
def test_the_picture_of_a_folder_has_few_rooms_and_arrows(folder: str) -> None:
    arrows = rooms_of(folder)
    assert len(arrows) <= MAX_ROOMS
    assert sum(len(ends) for ends in arrows.values()) <= MAX_ARROWS


def test_folders_are_small() -> None:
    def offences() -> Iterator[str]:
        for tree_of_rooms in (CODE, ROOT / "papers", ROOT / "benchmarks", ROOT / "tests" / "support"):
            for folder in (tree_of_rooms, *(path for path in tree_of_rooms.rglob("*") if path.is_dir())):
                files = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
                folders = {path.parent.name for path in folder.glob("*/*.py")}
                most = MAX_SHARE_OF.get(folder, MAX_ENTRIES)
                if len(files) + len(folders) > most:
                    count = f"{len(files)} files and {len(folders)} folders"
                    yield f"{folder.relative_to(ROOT)} holds {count}; {most} together is the most"

    assert not listed(offences())


def test_a_class_name_stands_in_one_package() -> None:
    """Two classes of one name are told apart by their imports alone; the known doubles may only become fewer."""
    packages: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                packages.setdefault(node.name, set()).add(module.rpartition(".")[0])
    doubles = {name for name, found in packages.items() if len(found) > 1}
    assert doubles == KNOWN_DOUBLES


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
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr in CLOCK_READS
                    and ast.unparse(node.value).startswith("date")
                ):
                    yield f"{place}:{node.lineno}: reads a clock by {ast.unparse(node)}"

    assert not listed(offences())


def test_chance_is_handed_in() -> None:
    def offences() -> Iterator[str]:
        for module in modules_of(*PURE):
            path = MODULES[module]
            place = path.relative_to(ROOT)
            for node in nodes(path):
                match node:
                    case ast.Attribute(
                        value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=name
                    ) if name not in SEEDED:
                        yield f"{place}:{node.lineno}: np.random.{name} is global"
                    case ast.Attribute(value=ast.Name(id="random"), attr=name) if name != "Random":
                        yield f"{place}:{node.lineno}: random.{name} is global"
                    case ast.Call(
                        func=ast.Name(id="default_rng") | ast.Attribute(attr="default_rng"), args=[]
                    ):
                        yield f"{place}:{node.lineno}: default_rng without a seed"

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


@pytest.mark.parametrize("door", DOORS)
def test_every_exported_name_exists(door: str) -> None:
    module = importlib.import_module(door)
    missing = [name for name in exported(door) if not hasattr(module, name)]
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
    assert not loaded_by(f"import kwiken.probes.{program}") & HEAVY


def test_a_plan_is_read_without_numpy() -> None:
    assert not loaded_by("from kwiken import Budgets, Plan, Service, StagePlan") & HEAVY


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    assert not loaded_by("import kwiken.cli") & (HEAVY | {"aiohttp", "kwiken.model.plan"})


def test_no_door_exports_a_name_of_its_own_modules() -> None:
    """`from package import name` would be the module or the function, by which was loaded last."""

    def offences() -> Iterator[str]:
        for door in DOORS:
            yield from (f"{door}.{name}" for name in exported(door) if f"{door}.{name}" in MODULES)

    assert not listed(offences())


FOLDERS = ("runtime", "services", "loadtest")  # what a user starts from, beside the code in `kwiken/`


def test_a_checkout_has_no_links() -> None:
    """From a zip, or a clone without links, a link is a file of some bytes."""
    listing = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert not [line for line in listing.splitlines() if line.startswith("120000")]
    assert all((ROOT / folder / "README.md").is_file() for folder in FOLDERS)


def test_code_imports_nothing_of_the_folders_a_user_starts_from() -> None:
    def offences() -> Iterator[str]:
        for path in MODULES.values():
            for line, target, _ in imports(path):
                if target.partition(".")[0] in FOLDERS:
                    yield f"{path.relative_to(ROOT)}:{line}: imports {target}"

    assert not listed(offences())
