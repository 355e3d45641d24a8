"""Pinned dependencies: the closure of what is installed, wheels in place of an index, what cannot be pinned."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from kwiken.apps.deploy.code import Code
from kwiken.apps.deploy.installed import Pins, pinned
from kwiken.apps.deploy.write import ImageFiles
from kwiken.base.errors import InputError

WHEEL = Path("kwiken-9.8.7-py3-none-any.whl")


def test_everything_that_kwiken_needs_is_pinned_to_what_is_installed() -> None:
    found = pinned([], ["otel"], [WHEEL])
    lines = dict(line.split("==") for line in found.lines)
    assert lines["aiohttp"] == version("aiohttp")
    assert lines["multidict"] == version("multidict")  # of aiohttp
    assert lines["opentelemetry-sdk"] == version("opentelemetry-sdk")
    assert lines["kwiken"] == "9.8.7"
    assert found.wheels == (WHEEL,)
    assert "numpy" not in lines
    assert list(lines) == sorted(lines)


def test_what_the_code_imports_is_pinned_too() -> None:
    lines = dict(line.split("==") for line in pinned(["json", "yaml", "numpy"], [], [WHEEL]).lines)
    assert lines["pyyaml"] == version("pyyaml")
    assert lines["numpy"] == version("numpy")
    assert "opentelemetry-sdk" not in lines


def test_what_no_image_can_install_is_refused() -> None:
    with pytest.raises(InputError, match=r"^package kwiken: was installed from file:.*give --wheel FILE"):
        pinned([], [])
    with pytest.raises(InputError, match=r"^module nowhere_at_all: is imported by the service"):
        pinned(["nowhere_at_all"], [], [WHEEL])


def test_wheels_that_are_none_or_without_effect_are_refused() -> None:
    with pytest.raises(InputError, match=r"^--wheel odd\.whl: must be NAME-VERSION-TAGS\.whl"):
        pinned([], [], [WHEEL, Path("odd.whl")])
    with pytest.raises(InputError, match=r"^--wheel other-1-py3-none-any\.whl: the service does not need it"):
        pinned([], [], [WHEEL, Path("other-1-py3-none-any.whl")])


def test_an_image_is_written_to_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "image"
    code, pins = Code(("shop.py",), ("shop",)), Pins(("kwiken==0.1.0",), ())
    ImageFiles(folder, tmp_path).write(code, pins)
    assert (folder / "Dockerfile").read_text().startswith("# Made by kwiken export")
    assert "kwiken==0.1.0" in (folder / "requirements.lock").read_text()
