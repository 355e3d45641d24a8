"""The reference of settings: the tables of `docs/reference/settings.md` have every field, its default and bounds."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import msgspec
import pytest

from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import MAX_STAGES, Service
from kwiken.model.service.stage import (
    MAX_COPIES,
    MAX_FANOUT,
    MAX_MS,
    MAX_REPLICAS,
    MAX_THREADS,
    Following,
    Reissue,
    Stage,
)
from tests.support.project.site_tables import generated

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "settings.md").read_text(
    encoding="utf-8"
)
CLASSES = ("Service", "Stage", "HttpCall", "GrpcCall", "Reissue", "Following")
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def rows(title: str) -> dict[str, tuple[str, str]]:
    """Default and meaning of each setting of a class."""
    assert f"```{{generated}} settings {title}\n" in PAGE
    return {name: (default, means) for name, default, means in ROW.findall(generated("settings", title))}


def shown(default: object, missing: object) -> str:
    return "required" if default is missing else f"`{default!r}`"


def defaults() -> dict[str, dict[str, str]]:
    service = list(inspect.signature(Service).parameters.values())
    return {
        "Service": {one.name: shown(one.default, one.empty) for one in service},
        "Stage": {one.name: shown(one.default, dataclasses.MISSING) for one in dataclasses.fields(Stage)},
        **{struct.__name__: defaults_of(struct) for struct in (Reissue, Following, HttpCall, GrpcCall)},
    }


def defaults_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {
        one.name: "left out"
        if one.default is msgspec.UNSET
        else f"`{one.default_factory()!r}`"
        if one.default_factory is not msgspec.NODEFAULT
        else shown(one.default, msgspec.NODEFAULT)
        for one in msgspec.structs.fields(struct)
    }


@pytest.mark.parametrize("title", CLASSES)
def test_every_setting_is_in_the_reference_with_its_default(title: str) -> None:
    found = rows(title)
    assert {name: default for name, (default, _) in found.items()} == defaults()[title]
    assert all(len(means) > 10 and "MAX_" not in means for _, means in found.values())


@pytest.mark.parametrize(
    ("title", "setting", "bound"),
    [
        ("Stage", "fanout", f"1 to {MAX_FANOUT:,}"),
        ("Stage", "replicas", f"1 to {MAX_REPLICAS:,}"),
        ("Stage", "threads", f"1 to {MAX_THREADS:,}"),
        ("Stage", "timeout_ms", f"at most {MAX_MS:,.0f}"),
        ("Reissue", "after_ms", f"0 to {MAX_MS:,.0f}"),
        ("Reissue", "copies", f"1 to {MAX_COPIES}"),
    ],
)
def test_bounds_are_those_of_the_code(title: str, setting: str, bound: str) -> None:
    assert bound in rows(title)[setting][1]


def test_the_bound_on_stages_is_that_of_the_code() -> None:
    assert f"at most {MAX_STAGES:,} stages" in PAGE
