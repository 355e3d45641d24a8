"""The door of the package: its names, its version, the command as a module, and systems it does not run on."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import kwiken
from kwiken.cli import main


def test_the_door_shows_its_names_and_loads_them_all() -> None:
    assert {"Hedger", "Service", "export_plan", "fit_profile", "make_plan"} <= {*dir(kwiken)}
    names: dict[str, object] = {}
    exec("from kwiken import *", names)
    assert names["Service"] is kwiken.Service
    assert {*kwiken.__all__} <= names.keys()
    assert kwiken.__version__ == version("kwiken")


def test_listing_names_loads_nothing_heavy() -> None:
    code = "import sys, kwiken; dir(kwiken); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not {"numpy", "scipy", "networkx"} & {*done.stdout.split()}


def test_the_command_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwiken", "--version"], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["kwiken", version("kwiken")]


def test_other_systems_get_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(SystemExit, match="runs on Linux and macOS, not on"):
        main(["--version"])
