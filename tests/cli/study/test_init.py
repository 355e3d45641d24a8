"""`kwiken init`: the new project's test passes, its commands run, its types are strict, its mistakes are named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.project.commands import refused, run
from tests.support.runtime.server_processes import KWIKEN, ROOT, free_port

FILES = {"README.md", "locustfile.py", "test_tea_shop.py", "tea_shop.py"}


def done(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that succeeds; the programs beside this Python are on its path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, (words, result.stdout, result.stderr)
    return result


def test_the_tests_of_a_new_project_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = done(*KWIKEN, "init", "tea_shop", cwd=tmp_path).stderr
    assert "tea_shop/ is written; next: cd tea_shop && pytest" in said
    assert {path.name for path in (tmp_path / "tea_shop").iterdir() if path.is_file()} == FILES
    assert len((tmp_path / "tea_shop" / "README.md").read_text().splitlines()) <= 10
    assert "\n2 passed" in done(sys.executable, "-m", "pytest", "-q", cwd=tmp_path / "tea_shop").stdout
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    refused(run("init", "tea_shop"), "tea_shop: exists; choose another name")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Shop", "must be a lower-case letter"),
        ("9lives", "must be a lower-case letter"),
        ("a/b", "must be a lower-case letter"),
        ("..", "must be a lower-case letter"),
        ("tea-shop", "must be a lower-case letter"),
        ("x" * 41, "must be a lower-case letter"),
        ("async", "no keyword"),
        ("json", "is a module that is installed"),
        ("kwiken", "is a module that is installed"),
    ],
)
def test_a_bad_name_is_refused_and_nothing_is_written(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run("init", name), problem)
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tea_shop").symlink_to(tmp_path / "nowhere" / "at" / "all")
    refused(run("init", "tea_shop"), "tea_shop: ")


@pytest.mark.slow
def test_with_a_wheel_there_is_a_compose_file_and_mypy_is_content(tmp_path: Path) -> None:
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    done(*KWIKEN, "init", "tea_shop", "--wheel", wheel.name, cwd=tmp_path)
    project = tmp_path / "tea_shop"
    compose = yaml.safe_load((project / "deploy" / "compose.yaml").read_text())
    assert {"gateway", "jaeger", "parse", "find", "rank"} <= compose["services"].keys()
    assert (project / "deploy" / "wheels" / wheel.name).is_file()
    done(sys.executable, "-m", "mypy", "--strict", *(f for f in FILES if f.endswith(".py")), cwd=project)


@pytest.mark.slow
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    done(*KWIKEN, "init", "tea_shop", cwd=tmp_path)
    project, port = tmp_path / "tea_shop", free_port()
    shutil.rmtree(project / "deploy", ignore_errors=True)
    for file in (project / "README.md", project / "locustfile.py"):
        text = file.read_text().replace("http://127.0.0.1:8080", f"http://127.0.0.1:{port}")
        file.write_text(text.replace("kwiken up ", f"kwiken up --port {port} ").replace("30", "8"))
    commands = [
        line.strip() for line in (project / "README.md").read_text().splitlines() if line[:4] == "    "
    ]
    assert len(commands) == 8
    assert commands[-1].startswith("docker compose ")
    try:
        for command in commands[:-1]:
            done("bash", "-c", command, cwd=project)
    finally:
        subprocess.run([*KWIKEN, "down"], cwd=project, check=False, capture_output=True, timeout=100)
