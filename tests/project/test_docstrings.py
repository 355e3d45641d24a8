"""Docstring rules for public names: arguments, results, shapes, units, errors and sources are documented.

The rules, for every name that a public package exports and every public method of its classes:

- The name has a docstring.
- `Args:` and `Attributes:` say what a name and its type do not: an entry of three words or fewer, without a shape, is
  refused anywhere in `kwiken`. `Args:` lists nothing that is not taken.
- `Raises:` lists each error of `KwikenError`'s family that the name raises, itself or through a private function of
  the same module.
- An array has its shape, `(n,)`.
- A float has its unit: in its name (`after_ms`), or in words such as milliseconds, a share, number of.
- Code built after a publication names the publication.

A method that a base class or a protocol of the same folder describes need not repeat the description.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.project import source_trees
from tests.support.project.source_trees import nodes, tree

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (  # doors
    *("kwiken", "kwiken.hedge", "kwiken.otel", "kwiken.runtime", "kwiken.loadtest"),
    "kwiken.testing",
)
MIN_DOCSTRING_CHARS: Final = 20
MIN_ENTRY_WORDS: Final = 4
SECTION: Final = re.compile(r"(Args|Attributes|Returns|Raises|Example):")
ENTRY: Final = re.compile(r"    (\S[^:]*): (.*)")
ARRAY: Final = re.compile(r"\b(Floats|Ints|Bools|NDArray|ndarray)\b")
FLOAT: Final = re.compile(r"\b(float|Floats)\b")
SHAPE: Final = re.compile(r"\(\w+,( \w+( \+ 1)?)?\)")
UNIT_NAME: Final = re.compile(
    r"(_ms|_ms2|_s|_hz|fraction|shares?|probability|utilisation|correlation|speedup|coin|quantile)$"
)
UNIT: Final = re.compile(
    r"\bms\b|ms²|millisecond|second|share|fraction|probabilit|0 to 1|number of|how many|\bcosts?\b|budget|weight"
    r"|utility|correlation|\btimes\b|ratio|factor|percentile|varianc|unit|work|logarithm|\bbytes\b|\bGB\b",
    re.IGNORECASE,
)
# Errors that a private function of the module raises, but never when called from the public name.
GUARDED: Final = {("kwiken.tail.queueing.load.known_utilisation", "InputError")}
SOURCES: Final = {
    "Baeza-Yates et al.": ("kwiken.loadtest.inputs.queries.Queries",),
    "CRISP": ("kwiken.otel.trace.paths.critical_path",),
    "Cinlar 1975": ("kwiken.loadtest.inputs.arrivals.Arrivals.chunks",),
    "Holm": ("kwiken.model.profile.change_over_time.drift",),
    "Kaler": (
        "kwiken.model.service.stage.Reissue",
        "papers.kwiken.policies_compared.compare_policies",
        "kwiken.tail.curves.curve.reissue_curve",
    ),
    "Kaplan and Meier 1958": ("kwiken.model.profile.distribution.kaplan_meier",),
    "Kwiken Figure 5.2": ("kwiken.tail.diagnosis.heat_map.heat_maps",),
    "Kwiken Figures 2.1 to 2.5": ("papers.worlds.populations.services.population",),
    "Kwiken equation 5.1": ("kwiken.model.latency.end_to_end",),
    "Kwiken section 2.1": ("kwiken.model.latency.critical_path",),
    "Kwiken section 5.1": ("kwiken.tail.diagnosis.explanation.explain",),
    "Kwiken section 5.2": ("kwiken.tail.planning.planner.study_plan",),
    "Kwiken section 5.2.1": (
        "kwiken.tail.curves.curve.Curve",
        "kwiken.model.profile.distribution.EmpiricalDistribution.time_outs",
        "papers.kwiken.policies_compared.compare_policies",
        "kwiken.tail.curves.curve.reissue_curve",
    ),
    "Kwiken section 5.2.2": ("kwiken.tail.curves.curve.lower_hull",),
    "Kwiken section 5.2.3": ("kwiken.tail.apportion.sum_of_variances.sumvar",),
    "Kwiken section 5.3": (
        "kwiken.model.plan.plan.PartialPolicy",
        "papers.kwiken.partial_answers.simple_rules.FixedTimeout",
        "kwiken.tail.partial.loss_curve.LossCurve",
        "kwiken.tail.partial.stop_rules.StopRule",
        "papers.kwiken.partial_answers.simple_rules.TimeThenFraction",
        "papers.kwiken.partial_answers.simple_rules.WaitForFraction",
        "kwiken.tail.partial.loss_budget.independent_costs",
        "kwiken.tail.partial.loss_curve.loss_curve",
        "kwiken.tail.partial.loss_budget.sequential_costs",
        "kwiken.tail.partial.loss_budget.study_partial",
        "papers.kwiken.partial_answers.simple_rules.tune_fixed_timeout",
        "kwiken.tail.partial.tuning.tune_stop_rule",
        "kwiken.tail.partial.tuning.tune_stop_rules",
        "papers.kwiken.partial_answers.simple_rules.tune_time_then_fraction",
        "papers.kwiken.partial_answers.simple_rules.tune_wait_for_fraction",
    ),
    "Kwiken section 5.4": ("kwiken.tail.simulation.trace_driven.simulate",),
    "Kwiken section 5.5": (
        "kwiken.model.plan.plan.CatchUpPolicy",
        "papers.kwiken.late_requests.global_reissue.GlobalReissue",
        "papers.kwiken.late_requests.timeline.ExtraThreads",
        "papers.kwiken.late_requests.timeline.speed_up",
        "papers.kwiken.late_requests.timeline.prioritise",
        "papers.kwiken.late_requests.global_reissue.run_global_reissue",
        "kwiken.tail.planning.catch_up.study_catch_up",
        "papers.kwiken.late_requests.global_reissue.tune_global_reissue",
    ),
    "Kwiken section 5.6": ("kwiken.tail.planning.levers.LeverPlanner",),
    "Mitzenmacher 2001": ("kwiken.tail.queueing.simulator.station.Station",),
    "Vulimiri et al. 2013": ("kwiken.tail.queueing.load.guard.guard",),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Named:
    """Public name: its label, its definition in a file, and the class around it."""

    label: str
    path: Path
    node: ast.ClassDef | Function
    owner: ast.ClassDef | None = None

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.node.lineno}: {self.label}"

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""


def file_of(module: str) -> Path:
    base = ROOT.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def exported(package: str) -> list[str]:
    """Names that a door offers."""
    return sorted(source_trees.exported(file_of(package)))


def written(module: str, name: str) -> tuple[Path, ast.ClassDef | Function] | None:
    """Definition of a name that a module offers; None for a name that is not a function or class."""
    path = file_of(module)
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return path, node
    for inner in ast.walk(tree(path)):
        if isinstance(inner, ast.ImportFrom) and name in {
            alias.asname or alias.name for alias in inner.names
        }:
            return written(inner.module or "", name)
    return None


@cache
def public() -> tuple[Named, ...]:
    """All public names, once each."""
    found: dict[tuple[Path, int], Named] = {}
    for package in PACKAGES:
        for name in exported(package):
            if (where := written(package, name)) is None:
                continue
            path, node = where
            found.setdefault((path, node.lineno), Named(f"{package}.{name}", path, node))
            if isinstance(node, ast.ClassDef):
                for label, inner in methods(node).items():
                    if not label.startswith("_"):
                        method = Named(f"{package}.{name}.{label}", path, inner, node)
                        found.setdefault((path, inner.lineno), method)
    return tuple(found.values())


@cache
def sections(doc: str) -> dict[str, dict[str, str]]:
    """Sections of a docstring, each as texts by entry; text without an entry, or before the first section, under ""."""
    parts: dict[str, dict[str, str]] = {"": {"": ""}}
    at, names = "", [""]
    for line in doc.splitlines():
        if head := SECTION.fullmatch(line):
            at, names = head[1], [""]
        elif line and not line.startswith(" "):
            at, names = "", [""]
        elif at in {"Args", "Attributes", "Raises"} and (entry := ENTRY.fullmatch(line)):
            names = entry[1].split(", ")
        for name in names:
            texts = parts.setdefault(at, {})
            texts[name] = texts.get(name, "") + line + "\n"
    return parts


def annotation(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def arguments(function: Function, *, method: bool) -> list[tuple[str, str]]:
    """Names and types of a function's arguments, without `self`."""
    spec = function.args
    bound = method and not any(ast.unparse(word) == "staticmethod" for word in function.decorator_list)
    taken = [*spec.posonlyargs, *spec.args][1 if bound else 0 :]
    others = [each for each in (spec.vararg, *spec.kwonlyargs, spec.kwarg) if each is not None]
    every = [(each.arg, annotation(each.annotation)) for each in (*taken, *others)]
    return [(name, kind) for name, kind in every if not name.startswith("_")]


def fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Names and types of the arguments of a class."""
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            return arguments(inner, method=True)
    made = " ".join(ast.unparse(word) for word in (*node.decorator_list, *node.bases))
    if not re.search(r"\b(dataclass|Struct|NamedTuple|TypedDict)\b", made):
        return []
    return [
        (inner.target.id, annotation(inner.annotation))
        for inner in node.body
        if isinstance(inner, ast.AnnAssign)
        and isinstance(inner.target, ast.Name)
        and not inner.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(inner.annotation)
        and "init=False" not in annotation(inner.value)
    ]


def methods(node: ast.ClassDef) -> dict[str, Function]:
    return {inner.name: inner for inner in node.body if isinstance(inner, Function)}


@cache
def described_elsewhere(named: Named) -> bool:
    """Whether a base class, or a protocol whose names the class has, describes this method."""
    if named.owner is None or isinstance(named.node, ast.ClassDef):
        return False
    own = methods(named.owner).keys() | dict(fields(named.owner)).keys()
    takes = arguments(named.node, method=True)
    bases = {ast.unparse(base).partition("[")[0] for base in named.owner.bases}
    for path in named.path.parent.glob("*.py"):
        for node in tree(path).body:
            if not isinstance(node, ast.ClassDef) or node is named.owner:
                continue
            other = methods(node)
            protocol = "Protocol" in {ast.unparse(base).partition("[")[0] for base in node.bases}
            satisfied = node.name in bases or (protocol and other.keys() <= own)
            if satisfied and named.node.name in other:
                given = arguments(other[named.node.name], method=True)
                if [name for name, _ in given] == [name for name, _ in takes]:
                    return True
    return False


def words() -> Iterator[tuple[Named, str, str, str | None]]:
    """Arguments of all public names: owner, argument, type, and description (None where it is missing)."""
    for named in public():
        if isinstance(named.node, ast.ClassDef):
            taken = fields(named.node)
        elif described_elsewhere(named):
            continue
        else:
            taken = arguments(named.node, method=named.owner is not None)
        parts = sections(named.doc)
        documented = parts.get("Args", {}) | parts.get("Attributes", {})
        documented |= {name.lstrip("*"): text for name, text in documented.items()}
        inside = named.owner is not None or isinstance(named.node, ast.ClassDef)
        for name, kind in taken:
            yield named, name, kind, documented.get(name, named.doc if inside and len(taken) == 1 else None)


def answers() -> Iterator[tuple[Named, str, str]]:
    """Results of all public functions: owner, type, and description."""
    for named in public():
        if not isinstance(named.node, ast.ClassDef) and not described_elsewhere(named):
            parts = sections(named.doc)
            yield named, annotation(named.node.returns), parts[""][""] + parts.get("Returns", {}).get("", "")


@cache
def family() -> frozenset[str]:
    """Names of `KwikenError` and all errors derived from it."""
    bases: dict[str, set[str]] = {}
    for room in {package.partition(".")[0] for package in PACKAGES}:
        for path in (ROOT / room).rglob("*.py"):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef):
                    bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    found = {"KwikenError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return frozenset(found)


def name_of(called: ast.expr) -> str:
    """Name of a called function or of a method of the same object; empty for anything else."""
    if isinstance(called, ast.Name):
        return called.id
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
        return f"self.{called.attr}"
    return ""


def raised(named: Named, start: list[Function]) -> set[str]:
    """Errors of the family that functions raise, themselves or through private functions of the module."""
    beside: dict[str, Function] = {
        node.name: node for node in tree(named.path).body if isinstance(node, Function)
    }
    owner = named.owner if named.owner is not None else named.node
    if isinstance(owner, ast.ClassDef):
        beside |= {f"self.{name}": function for name, function in methods(owner).items()}
    names: set[str] = set()
    seen: list[Function] = []
    waiting = list(start)
    while waiting:
        seen.append(waiting.pop())
        for node in ast.walk(seen[-1]):
            if isinstance(node, ast.Raise) and node.exc is not None:
                what = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
                what = annotation(beside[what].returns) if what in beside else what
                names |= {what.rpartition(".")[2]} & family()
            elif isinstance(node, ast.Call):
                called = name_of(node.func)
                private = called.removeprefix("self.").startswith("_")
                if private and called in beside and beside[called] not in [*seen, *waiting]:
                    waiting.append(beside[called])
    return names


def without_docstring() -> Iterator[str]:
    for named in public():
        if not named.doc:
            yield f"{named.place}: no docstring"
        elif named.owner is None and len(named.doc) <= MIN_DOCSTRING_CHARS:
            yield f"{named.place}: a docstring of {len(named.doc)} characters"


def empty_entries() -> Iterator[str]:
    """Entries that only repeat a name, in all modules."""
    for path in sorted((ROOT / "kwiken").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef | Function):
                parts = sections(ast.get_docstring(node) or "")
                for name, text in (parts.get("Args", {}) | parts.get("Attributes", {})).items():
                    said = text.partition(": ")[2]
                    if name and len(said.split()) < MIN_ENTRY_WORDS and "(" not in said:
                        kind = dict(
                            fields(node) if isinstance(node, ast.ClassDef) else arguments(node, method=False)
                        )
                        if not FLOAT.search(kind.get(name, "float")):
                            yield f"{path.relative_to(ROOT)}:{node.lineno}: {name} says no more than its name"


def documented_but_not_taken() -> Iterator[str]:
    for named in public():
        node = named.node
        taken = (
            fields(node)
            if isinstance(node, ast.ClassDef)
            else arguments(node, method=named.owner is not None)
        )
        for name in sections(named.doc).get("Args", {}):
            if name and name.lstrip("*") not in dict(taken):
                yield f"{named.place}: Args tells {name}, which is not taken"


def undocumented_errors() -> Iterator[str]:
    for named in public():
        if isinstance(named.node, ast.ClassDef):
            made = methods(named.node)
            start = [made[name] for name in ("__init__", "__post_init__") if name in made]
        elif described_elsewhere(named):
            continue
        else:
            start = [named.node]
        documented = sections(named.doc).get("Raises", {})
        for name in sorted(raised(named, start) - documented.keys()):
            if (named.label, name) not in GUARDED:
                yield f"{named.place}: Raises does not tell {name}"


def undocumented_shapes() -> Iterator[str]:
    for named, name, kind, text in words():
        if ARRAY.search(kind) and not SHAPE.search(text or ""):
            yield f"{named.place}: {name} has no shape"
    for named, kind, text in answers():
        if ARRAY.search(kind) and not SHAPE.search(text):
            yield f"{named.place}: what it returns has no shape"


def undocumented_units() -> Iterator[str]:
    for named, name, kind, text in words():
        if FLOAT.search(kind) and not (UNIT_NAME.search(name) or UNIT.search(text or "")):
            yield f"{named.place}: {name} has no unit"
    for named, kind, text in answers():
        name = named.node.name
        if FLOAT.search(kind) and not (UNIT_NAME.search(name) or UNIT.search(text)):
            yield f"{named.place}: what it returns has no unit"


def undocumented_sources() -> Iterator[str]:
    for source, names in SOURCES.items():
        for name in names:
            module, _, last = name.rpartition(".")
            module, _, owner = (module, "", "") if file_of(module).exists() else module.rpartition(".")
            found = written(module, owner or last)
            assert found is not None, name
            path, node = found
            if owner and isinstance(node, ast.ClassDef):
                node = methods(node)[last]
            if source not in " ".join((ast.get_docstring(node) or "").split()):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name} does not name {source}"


RULES: Final = (
    without_docstring,
    empty_entries,
    documented_but_not_taken,
    undocumented_errors,
    undocumented_shapes,
    undocumented_units,
    undocumented_sources,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_public_names_have_full_docstrings(rule: Callable[[], Iterator[str]]) -> None:
    offences = list(rule())
    assert not offences, "\n".join(offences)


def test_nothing_public_is_overlooked() -> None:
    labels = {named.label for named in public()}
    assert {
        "kwiken.make_plan",
        "kwiken.Hedger.call",
        "kwiken.runtime.Cluster.put_plan",
        "kwiken.loadtest.run_load",
    } <= labels
    assert all(len([label for label in labels if label.startswith(package)]) >= 2 for package in PACKAGES)


CASES: Final = {
    "without_docstring": "def f(): pass",
    "empty_entries": 'def f(a: int, b: int):\n    """Do it.\n\n    Args:\n        a: one.\n    """',
    "documented_but_not_taken": 'def f():\n    """Do it.\n\n    Args:\n        b: one.\n    """',
    "undocumented_errors": 'def f():\n    """Do it and all at once."""\n    _g()\n\ndef _g():\n    raise InputError("no")',
    "undocumented_shapes": 'def f(a: Floats):\n    """Do it and all at once.\n\n    Args:\n        a: in ms.\n    """',
    "undocumented_units": 'def f() -> float:\n    """Do it and all at once."""',
}


@pytest.mark.parametrize("rule", CASES)
def test_each_rule_finds_its_violation(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kwiken" / "f.py"
    path.parent.mkdir()
    path.write_text(CASES[rule], encoding="utf-8")
    node = tree(path).body[0]
    assert isinstance(node, ast.FunctionDef)
    family()  # of the real tree
    here = globals()
    monkeypatch.setitem(here, "ROOT", tmp_path)
    monkeypatch.setitem(here, "public", lambda: (Named("f", path, node),))
    broken = [each.__name__ for each in RULES[:-1] if list(each())]
    assert broken == [rule]
