"""Code of a service: what its files import, in text; files that are missing or elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.apps.deploy.code import code_of
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


def test_an_import_that_the_code_can_do_without_need_not_be_there(tmp_path: Path) -> None:
    (tmp_path / "extra.py").write_text("")
    (tmp_path / "shop.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere_stubs\n"
        "try:\n    import nowhere_fast\n    import extra\n    import numpy\n"
        "except (ImportError, OSError):\n    import nowhere_slow\n"
        "try:\n    import nowhere_needed\nexcept KeyError:\n    pass\n"
    )
    found = code_of("shop:shop", tmp_path)
    assert found.paths == ("extra.py", "shop.py")
    assert set(found.modules) == {"typing", "numpy", "nowhere_needed"}


def test_environments_and_hidden_folders_in_a_package_are_not_its_code(tmp_path: Path) -> None:
    for folder in ("app/env/lib", "app/.git", "app/__pycache__", "app/sub"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_text(f"import nowhere_{folder.split('/')[1].strip('._')}\n")
    (tmp_path / "app" / "env" / "pyvenv.cfg").write_text("")
    assert code_of("app.sub.x:x", tmp_path).modules == ("nowhere_sub",)


def test_a_package_with_too_much_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app" / "data").mkdir(parents=True)
    (tmp_path / "app" / "main.py").write_text("")
    for number in range(20):
        (tmp_path / "app" / "data" / str(number)).write_text("")
    monkeypatch.setattr("kwiken.apps.deploy.code.MAX_ENTRIES", 10)
    with pytest.raises(InputError, match=r"app: holds more than .*keep data and environments elsewhere"):
        code_of("app.main:x", tmp_path)


@pytest.mark.parametrize("name", [".env", "conf/.env", "tls.pem", "id_rsa", ".ssh/config"])
def test_secrets_are_not_included(name: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="is hidden or a key"):
        code_of("shop:shop", tmp_path, [name])


@pytest.mark.parametrize("name", ["a$b", "a[1]", "a*", "a\nb", "!a", 'a"b'])
def test_names_that_a_dockerfile_would_expand_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("")
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="which a Dockerfile takes for more"):
        code_of("shop:shop", tmp_path, [name])


def test_a_file_with_dots_in_its_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "my.shop.py").write_text("import json\n")
    found = code_of("my.shop.py:shop", tmp_path)
    assert (found.paths, found.modules) == (("my.shop.py",), ("json",))
