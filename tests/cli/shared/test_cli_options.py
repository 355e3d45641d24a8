"""Values and services named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.cli.shared.options import NOT_NEGATIVE, POSITIVE, SHARE, Real, load_service
from kwiken.model.service.service import Service


class TestNumbers:
    @pytest.mark.parametrize(
        "value", ["nan", "NaN", "inf", "-inf", "-0.1", "1.1", "", "five", "1e999", "0x1", None]
    )
    def test_a_share_is_from_0_to_1(self, value: str) -> None:
        with pytest.raises(click.BadParameter, match="must be a finite number at least 0 and at most 1"):
            SHARE.convert(value, None, None)

    @pytest.mark.parametrize("value", ["0", "1", "0.05", "5e-2"])
    def test_shares(self, value: str) -> None:
        assert SHARE.convert(value, None, None) == float(value)

    def test_bounds(self) -> None:
        assert NOT_NEGATIVE.convert("0", None, None) == 0
        with pytest.raises(click.BadParameter, match="above 0"):
            POSITIVE.convert("0", None, None)
        with pytest.raises(click.BadParameter, match=r"a finite number$"):
            Real().convert("inf", None, None)
        assert Real(-2, -1).convert("-1.5", None, None) == -1.5


MODULES = {
    "good": """
from kwiken import Service
demo = Service("demo")
@demo.stage()
async def only(request): return request
class Box:
    inner = demo
empty = Service("empty")
number = 5
""",
    "broken": "x = (",
    "failing": "\n\nraise RuntimeError('no\\nluck')",
    "leaving": "import sys; sys.exit(0)",
    "needing": "import nothing_of_that_name",
    "wrong": """
from kwiken import Service
demo = Service("demo")
@demo.stage(after=["ghost"])
async def only(request): return request
""",
    "none": "pass",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules in it, of which the interpreter forgets all afterwards."""
    for name, source in MODULES.items():
        (tmp_path / f"kw_{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("kw_")]:
        del sys.modules[name]


class TestServices:
    @pytest.mark.usefixtures("folder")
    def test_a_module_of_the_current_folder(self) -> None:
        service = load_service("kw_good:demo")
        assert isinstance(service, Service)
        assert service.name == "demo"
        assert load_service("kw_good:Box.inner") is service

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("kw_good", "'kw_good': must be MODULE:SERVICE"),
            ("kw_good:", "must be MODULE:SERVICE"),
            (":demo", "must be MODULE:SERVICE"),
            ("", "must be MODULE:SERVICE"),
            ("kw_ghost:demo", "module kw_ghost: there is no such module"),
            ("kw_ghost.inner:demo", "module kw_ghost.inner: there is no such module"),
            ("..:demo", r"'\.\.' is not a module's name$"),
            ("a b/c:demo", "'a b/c' is not a module's name$"),
            ("kw_good:ghost", "module kw_good: has no 'ghost'; its services: demo, empty"),
            ("kw_good:demo.ghost", "has no 'demo.ghost'"),
            ("kw_good:number", "kw_good:number: is a int, not a Service; its services: demo, empty"),
            ("kw_none:demo", "has no 'demo'; it defines no Service"),
            ("kw_broken:demo", r"module kw_broken: cannot be imported: .* at .*kw_broken\.py:1"),
            (
                "kw_failing:demo",
                r"module kw_failing: cannot be imported: RuntimeError: no luck at .*kw_failing\.py:3",
            ),
            ("kw_leaving:demo", "module kw_leaving: cannot be imported: SystemExit"),
            ("kw_needing:demo", "No module named 'nothing_of_that_name' at .*kw_needing.py:1"),
        ],
    )
    @pytest.mark.usefixtures("folder")
    def test_what_is_no_service(self, target: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_service(target)

    @pytest.mark.usefixtures("folder")
    def test_a_wrong_definition_keeps_its_own_words(self) -> None:
        with pytest.raises(DefinitionError, match="stage 'only': comes after 'ghost'"):
            load_service("kw_wrong:demo")

    @pytest.mark.usefixtures("folder")
    def test_a_service_that_cannot_run_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match="no stage at all"):
            load_service("kw_good:empty")
