"""Without an extra: a verb or a library name that needs one ends in a line that names it; the core needs none."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from kwiken.base.extras import EXTRAS, needs, require
from tests.support.project.commands import one_refusal, refused, run

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = sorted({library for libraries in EXTRAS.values() for library in libraries})
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOCKED = """
import sys

for library in {blocked}:
    sys.modules[library] = None
{code}
"""


def without(blocked: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that cannot import some libraries."""
    program = BLOCKED.format(blocked=blocked, code=code)
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )


def distributions(extra: str) -> set[str]:
    """Names of what an extra installs, those of the extras in it too."""
    found: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        inner = re.fullmatch(r"kwiken\[(.*)\]", requirement)
        names = inner[1].split(",") if inner else []
        found |= {name for each in names for name in distributions(each)} if inner else {bare(requirement)}
    return found


def bare(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower()


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_table_is_what_the_extra_installs(extra: str) -> None:
    owners = packages_distributions()
    told = {name.lower() for library in EXTRAS[extra] for name in owners[library]}
    wanted = distributions(extra)
    assert wanted <= told
    for library in EXTRAS[extra]:
        assert wanted & {name.lower() for name in owners[library]}, library


def test_all_is_all() -> None:
    assert distributions("all") == {name for extra in EXTRAS for name in distributions(extra)}
    assert set(PROJECT["optional-dependencies"]) == {*EXTRAS, "all"}
    assert not distributions("all") & {bare(requirement) for requirement in PROJECT["dependencies"]}


@pytest.mark.parametrize(
    ("library", "line", "told"),
    [
        ("locust", "load http://127.0.0.1:9", r'load needs Locust: pip install "kwiken\[load\]"'),
        ("numpy", "load http://127.0.0.1:9", r'load needs NumPy: pip install "kwiken\[load\]"'),
        ("numpy", "plan profile.json", r'plan needs NumPy: pip install "kwiken\[plan\]"'),
        ("networkx", "fit traces", r'fit needs networkx: pip install "kwiken\[plan\]"'),
        ("scipy", "simulate profile.json", r'simulate needs SciPy: pip install "kwiken\[plan\]"'),
        ("scipy", "explain profile.json", r'explain needs SciPy: pip install "kwiken\[plan\]"'),
        ("yaml", "export plan.json --to istio", r'export needs PyYAML: pip install "kwiken\[plan\]"'),
        ("jinja2", "report profile.json", r'report needs Jinja2: pip install "kwiken\[report\]"'),
        ("locust", "demo", r'demo needs Locust: pip install "kwiken\[load,report\]"'),
        ("jinja2", "demo", r'demo needs Jinja2: pip install "kwiken\[load,report\]"'),
        *(
            (
                "opentelemetry",
                f"{verb} services.hello:hello {more} --otlp http://127.0.0.1:9",
                r'--otlp needs the OpenTelemetry SDK: pip install "kwiken\[otel\]"',
            )
            for verb, more in (("up", ""), ("serve", "--local"), ("stage", "--stage tidy"))
        ),
    ],
)
def test_a_verb_names_the_missing_extra(
    monkeypatch: pytest.MonkeyPatch, library: str, line: str, told: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    refused(run(*line.split()), f"^kwiken: {told}$")


@pytest.mark.parametrize("verb", ["load", "fit", "plan", "report", "demo", "export"])
def test_help_needs_no_extra(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
    assert run(verb, "--help").exit_code == 0


def test_the_command_names_the_missing_extra_and_exits_with_2() -> None:
    done = without(LIBRARIES, "from kwiken.cli import main; main(['load', 'http://127.0.0.1:9'])")
    assert done.returncode == 2
    one_refusal(done.stderr, r'load needs Locust: pip install "kwiken\[load\]"$')


def test_a_lazy_name_of_the_library_names_the_missing_extra() -> None:
    code = """
import kwiken, kwiken.loadtest, kwiken.otel
from services.hello import hello

for use in (
    lambda: kwiken.make_plan,
    lambda: kwiken.Profile,
    lambda: kwiken.service_to_yaml(hello),
    lambda: kwiken.service_from_yaml("version: 1"),
    lambda: kwiken.loadtest.LoadSettings,
    lambda: kwiken.loadtest.DagUser,
    lambda: kwiken.otel.fit_profile,
    lambda: kwiken.otel.OtlpLinesExporter,
    lambda: list(kwiken.otel.readable_spans("it", [])),
):
    try:
        use()
    except kwiken.KwikenError as error:
        assert isinstance(error, ModuleNotFoundError)
        print(error)
"""
    done = without(LIBRARIES, code)
    assert done.stdout.splitlines() == [
        'kwiken.make_plan needs NumPy: pip install "kwiken[plan]"',
        'kwiken.Profile needs NumPy: pip install "kwiken[plan]"',
        'kwiken.service_to_yaml needs PyYAML: pip install "kwiken[plan]"',
        'a service in YAML needs PyYAML: pip install "kwiken[plan]"',
        'kwiken.loadtest.LoadSettings needs NumPy: pip install "kwiken[load]"',
        'kwiken.loadtest.DagUser needs gevent: pip install "kwiken[load]"',
        'kwiken.otel.fit_profile needs NumPy: pip install "kwiken[plan]"',
        'kwiken.otel.OtlpLinesExporter needs the OpenTelemetry SDK: pip install "kwiken[otel]"',
        'kwiken.otel.readable_spans needs the OpenTelemetry SDK: pip install "kwiken[otel]"',
    ], done.stderr


def test_the_core_needs_no_extra() -> None:
    code = """
import kwiken.runtime.gateway, kwiken.runtime.replica, kwiken.runtime.cluster, kwiken.runtime.process
import kwiken.services.search.__main__
from kwiken import Budgets, Partial, Plan, Service, StagePlan, service_to_json, to_mermaid
from kwiken.otel import Observer, otlp_lines
from kwiken.runtime.process.gateway_process import serve_gateway
"""
    done = without(LIBRARIES, code)
    assert done.returncode == 0, done.stderr


def test_other_import_errors_are_raised_unchanged() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library") as caught, needs("this test"):
        import no_such_library  # type: ignore[import-not-found]  # noqa: F401
    assert type(caught.value) is ModuleNotFoundError


def test_what_is_installed_is_not_asked_for() -> None:
    require("this test", *EXTRAS)
