"""Start of the command: help texts and refusals load no slow library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwiken.cli.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
# Libraries that no help text and no refusal needs. msgspec takes a fifth of the time of a help text, the others more.
HEAVY = {"aiohttp", "asyncio", "gevent", "jinja2", "joblib", "locust", "matplotlib", "msgspec"} | {
    "networkx",
    "numpy",
    "opentelemetry.sdk",
    "rich",
    "scipy",
    "yaml",
}
UNKNOWN_FILE = {
    "advise": ("advise", "/nowhere/traces.json"),
    "fit": ("fit", "/nowhere/traces.json"),
    "plan": ("plan", "/nowhere.json"),
    "explain": ("explain", "/nowhere.json"),
    "simulate": ("simulate", "/nowhere.json"),
    "simulate at a load": ("simulate", "/nowhere.json", "--load", "1.5"),
    "apply": ("apply", "/nowhere.json"),
    "export": ("export", "/nowhere.json", "--to", "grpc"),
    "report": ("report", "/nowhere.json"),
    "report of several": ("report", str(ROOT / "README.md"), "/nowhere.json"),
}


def loaded_by(*args: str) -> tuple[int, str, set[str]]:
    """Exit code and stderr of a command line in a process of its own, and the modules loaded at its end."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', *sys.modules))\n"
        "from kwiken.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr, set(done.stdout.splitlines()[-1].split())


def test_the_verbs_are_listed_without_heavy_libraries() -> None:
    code, _, loaded = loaded_by("--help")
    assert code == 0
    assert not loaded & HEAVY


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_option_is_refused_without_heavy_libraries(verb: str) -> None:
    code, stderr, loaded = loaded_by(verb, "--no-such-option")
    assert (code, "--no-such-option" in stderr) == (2, True)
    assert not loaded & HEAVY


@pytest.mark.parametrize("case", UNKNOWN_FILE)
def test_an_unknown_file_is_refused_without_heavy_libraries(case: str) -> None:
    code, stderr, loaded = loaded_by(*UNKNOWN_FILE[case])
    assert (code, "there is no such file" in stderr) == (2, True)
    assert not loaded & HEAVY


def test_reading_a_profile_loads_no_planner_and_no_graph_library(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text("[]", encoding="utf-8")
    code, stderr, loaded = loaded_by("plan", str(path))
    assert (code, str(path) in stderr) == (2, True)
    assert not loaded & {
        "kwiken.tail.planning",
        "kwiken.tail.simulation",
        "networkx",
        "scipy.stats",
        "scipy.optimize",
    }


def test_reading_traces_loads_no_graph_library(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    path.write_text("[]", encoding="utf-8")
    code, _, loaded = loaded_by("fit", str(path))
    assert code == 2
    assert not loaded & {"networkx", "scipy.stats", "scipy.optimize", "jinja2", "matplotlib"}
