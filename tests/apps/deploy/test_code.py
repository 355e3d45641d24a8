"""Code of a service: what its files import, in text; files that are missing or elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.apps.deploy import code_of
from kwiken.base.errors import InputError


def test_imports_are_followed_through_files_and_packages(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import json, stock.shelf\nfrom prices import vat\n")
    (tmp_path / "prices.py").write_text("def vat():\n    import numpy.linalg as la\n    return la\n")
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock" / "shelf.py").write_text("from . import box\nimport shop\n")
    (tmp_path / "stock" / "box.py").write_text("import yaml\n")
    (tmp_path / "other.py").write_text("import torch\n")
    found = code_of("shop:shop", tmp_path)
    assert found.paths == ("prices.py", "shop.py", "stock")
    assert set(found.modules) == {"json", "numpy", "yaml"}
    assert code_of("shop.py:shop", tmp_path) == found


def test_a_module_in_a_package_brings_the_package(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("x = 1\n")
    for target in ("app.main:x", "app/main.py:x"):
        assert code_of(target, tmp_path).paths == ("app",)


def test_further_files_are_added(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "shop.yaml").write_text("")
    assert code_of("shop:shop", tmp_path, ["data"]).paths == ("data", "shop.py")
    assert code_of("shop.yaml", tmp_path, ["data"]).paths == ("data", "shop.yaml")


def test_what_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("x = (\n")
    with pytest.raises(InputError, match=r"^gone: there is no such file"):
        code_of("shop:shop", tmp_path, ["gone"])
    with pytest.raises(InputError, match=r"^\.\.: must lie below"):
        code_of("shop:shop", tmp_path, [".."])
    with pytest.raises(InputError, match=r"shop\.py: cannot be read"):
        code_of("shop:shop", tmp_path)
