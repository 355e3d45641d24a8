"""Kinds of requests: settings of every form, good and bad, and what counts as a kind."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.codec import service_from_dict, service_from_json, service_to_dict, service_to_json
from kwiken.model.service.request_kinds import OTHER, RequestKinds
from kwiken.model.service.service import Service


@pytest.mark.parametrize(
    ("setting", "request_", "headers", "kind"),
    [
        ("header:X-Kind", {}, {"x-kind": "big"}, "big"),
        ("header:x-kind", {}, {}, OTHER),
        ("header:x-kind=a,b", {}, {"x-kind": "c"}, OTHER),
        ("header:x-kind=a,b", {}, {"x-kind": "b"}, "b"),
        ("field:kind", {"kind": "big"}, {}, "big"),
        ("field:kind", SimpleNamespace(kind="big"), {}, "big"),
        ("field:a.b", {"a": SimpleNamespace(b=7)}, {}, "7"),
        ("field:deep", {"deep": True}, {}, "true"),
        ("field:a.b", {"a": None}, {}, OTHER),
        ("field:kind", "text", {}, OTHER),
        ("field:kind", {"kind": 1.5}, {}, OTHER),
        ("field:kind", {"kind": "x" * 65}, {}, OTHER),
        ("field:kind", {"kind": "a\nb"}, {}, OTHER),
        ("field:kind", {"kind": ""}, {}, OTHER),
    ],
)
def test_the_kind_of_a_request(setting: str, request_: Any, headers: dict[str, str], kind: str) -> None:
    assert RequestKinds.parse(setting, where="x").of(request_, headers) == kind


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("kind", "must be header:NAME, field:NAME"),
        ("header:", "must be header:NAME"),
        ("field:a b", "must be header:NAME"),
        ("route:x", "must be header:NAME"),
        ("field:a=", "must be header:NAME"),
        ("field:a=b,", "a kind has 1 to 64"),
        ("field:a=b,b", "at most 31 kinds once"),
        ("field:a=" + ",".join(map(str, range(32))), "at most 31 kinds once"),
        ("field:a=" + "x" * 65, "a kind has 1 to 64"),
        ("field:a=\x1b[2J", "a kind has 1 to 64"),
    ],
)
def test_bad_settings_are_refused(setting: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        RequestKinds.parse(setting, where="--lines")
    assert str(caught.value).startswith("--lines: ")
    with pytest.raises(DefinitionError, match=problem):
        Service("shop", lines=setting)


def test_a_service_in_a_document_keeps_its_lines() -> None:
    text = '{"version": 1, "service": "shop", "lines": "field:kind", "stages": []}'
    made = service_from_json(text)
    assert made.lines == "field:kind"
    assert service_from_json(service_to_json(made)).lines == "field:kind"
    assert "lines" not in service_to_dict(Service("shop"))
    with pytest.raises(InputError, match="lines"):
        service_from_dict({"version": 1, "service": "shop", "lines": 7, "stages": []})


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(InputError):
        RequestKinds.parse(text, where="x")


def test_a_number_that_is_too_long_is_of_the_kind_other() -> None:
    kinds = RequestKinds.parse("field:id", where="here")
    assert kinds.of({"id": 10**6000}, {}) == OTHER
    assert kinds.of({"id": 10**62}, {}) == str(10**62)
