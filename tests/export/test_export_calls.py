"""Calls denoted by span names and map entries, and invalid ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import (
    ExportedCall,
    StageAddress,
    call_named,
    call_of,
    check_known,
    read_targets,
)
from kwiken.export.plans.grpc import grpc_config
from kwiken.export.plans.hedges import hedges, nanoseconds, seconds, whole_ms
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.service.stage import Reissue
from tests.support.otel.exports import plan_with, stage

LATE = Reissue(after_ms=20, fraction=0.05)


class TestNames:
    @pytest.mark.parametrize("name", ["shop.v1.Cart/Get", "/shop.v1.Cart/Get"])
    def test_grpc_with_a_package(self, name: str) -> None:
        found = call_named(name)
        assert found == ExportedCall(path="/shop.v1.Cart/Get", method="POST", grpc=("shop.v1.Cart", "Get"))

    @pytest.mark.parametrize(
        ("name", "method"),
        [("/cart", None), ("GET /cart", "GET"), ("HTTP GET /cart", "GET"), ("HTTP GET: /cart", "GET")],
    )
    def test_http(self, name: str, method: str | None) -> None:
        assert call_named(name) == ExportedCall(path="/cart", method=method)

    @pytest.mark.parametrize("variable", ["{id}", ":id", "<id>", "<int:id>"])
    def test_a_variable_segment_matches_one_segment(self, variable: str) -> None:
        found = call_named(f"GET /users/{variable}/cart-v1.0")
        assert found is not None
        assert found.path is None
        assert found.regex is not None
        assert re.fullmatch(found.regex, "/users/7/cart-v1.0")
        assert not re.fullmatch(found.regex, "/users/7/8/cart-v1.0")
        assert not re.fullmatch(found.regex, "/users/7/cart-v1x0")

    @pytest.mark.parametrize(
        "name",
        ["", "lookup", "users/list", "GET", "get /cart", "/a b", "/a?b=1", "/a#b", "/a/*", "/a\nb", "/ä", "a.B/", "a.B/C/D", "a.B/C d", "Recv.a.B", "cart /cart"],
    )  # fmt: skip
    def test_no_call(self, name: str) -> None:
        assert call_named(name) is None

    def test_a_person_may_leave_the_package_out(self) -> None:
        found = call_named("Greeter/SayHello", sure=True)
        assert found is not None
        assert found.grpc == ("Greeter", "SayHello")
        plain_path = call_named("/users/list", sure=True)
        assert plain_path is not None
        assert plain_path.grpc is None

    @given(st.text(max_size=40))
    def test_any_text_is_a_call_or_none(self, name: str) -> None:
        found = call_named(name)
        if found is not None and found.regex is not None:
            re.compile(found.regex)


class TestTargets:
    MATCH = SpanMatch(service="Cart", operation="GET /cart")

    def test_the_method_comes_from_the_span(self) -> None:
        assert call_of(self.MATCH, None) == ExportedCall(path="/cart", method="GET", host="cart")

    def test_the_map_goes_first_field_by_field(self) -> None:
        assert call_of(self.MATCH, StageAddress(host="c.svc", port=81)) == ExportedCall(
            path="/cart", method="GET", host="c.svc", port=81
        )
        assert call_of(self.MATCH, StageAddress(prefix="/")) == ExportedCall(prefix="/", host="cart")
        assert call_of(None, StageAddress(call="/x")) == ExportedCall(path="/x")
        assert call_of(None, None) is None

    def test_a_service_that_is_no_host_gives_none(self) -> None:
        found = call_of(SpanMatch(service="evil\nhost: x", operation="/x"), None)
        assert found is not None
        assert found.host == ""

    def test_a_string_is_a_call(self) -> None:
        found = read_targets('{"a": "s.S/M", "b": {"prefix": "/b", "host": "h", "port": 1}}')
        assert found == {"a": StageAddress(call="s.S/M"), "b": StageAddress(prefix="/b", host="h", port=1)}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[]", "m: must hold a JSON object"),
            ("{", "m:1: broken JSON"),
            ('{"a": 1}', "m: stage 'a': must be a call or an object"),
            ('{"a": "lookup"}', "m: stage 'a': call must be package.Service/Method"),
            ('{"a": {"path": "/x"}}', "unknown field `path`"),
            ('{"a": {"port": 0}}', "port must be from 1 to 65535, not 0"),
            ('{"a": {"port": "80"}}', "port: Expected `int | null`"),
            ('{"a": {"host": "a b"}}', "host must be a name"),
            ('{"a": {"host": ""}}', "host must be a name"),
            ('{"a": {"host": "h\\n"}}', "host must be a name"),
            ('{"a": {"prefix": "x"}}', "prefix must start with '/'"),
            ('{"a": {"prefix": "/x\\ny"}}', "prefix must start with '/'"),
            ('{"a": {"prefix": "/", "call": "/x"}}', "call or prefix, not both"),
            ('{"a": "/x", "a": "/y"}', "given twice"),
        ],
    )
    def test_what_is_refused(self, text: str, words: str) -> None:
        with pytest.raises(InputError) as refusal:
            read_targets(text, where="m")
        assert words in str(refusal.value)

    def test_a_stage_that_the_plan_has_not(self) -> None:
        with pytest.raises(InputError, match=r"m: the plan has no stage 'lokup'; its stages: lookup"):
            check_known({"lokup": StageAddress(call="/x")}, {"lookup": None}, where="m")


class TestUnits:
    @pytest.mark.parametrize(
        ("ms", "text"),
        [(0, "0s"), (12.5, "0.0125s"), (12.1, "0.0121s"), (1, "0.001s"), (1000, "1s"), (1500, "1.5s"), (0.0000001, "0.000000001s"), (86_400_000.0, "86400s")],
    )  # fmt: skip
    def test_milliseconds_to_a_duration(self, ms: float, text: str) -> None:
        assert seconds(nanoseconds(ms)) == text

    @given(st.floats(0, 86_400_000))
    def test_never_early_and_never_a_nanosecond_late(self, ms: float) -> None:
        text = seconds(nanoseconds(ms))
        assert re.fullmatch(r"\d+(\.\d{1,9})?s", text)
        from fractions import Fraction

        late = Fraction(text[:-1]) - Fraction(repr(ms)) / 1000
        assert 0 <= late < Fraction(1, 10**9)

    @pytest.mark.parametrize(("ms", "whole"), [(0, 1), (0.2, 1), (1, 1), (12, 12), (12.1, 13)])
    def test_whole_milliseconds(self, ms: float, whole: int) -> None:
        assert whole_ms(ms) == whole


class TestMerging:
    def test_indistinguishable_calls_share_the_most_careful_policy(self) -> None:
        plan = plan_with(
            {
                "first": stage("s.S/M", Reissue(after_ms=10, copies=3, probability=0.9, fraction=0.2)),
                "second": stage(
                    "s.S/M", Reissue(after_ms=30, copies=1, probability=0.5, fraction=0.1), turn=2
                ),
                "third": stage("s.S/M", turn=3),
            }
        )
        (found,), notes = hedges(plan, {}, needs="grpc")
        assert found.stages == ("first", "second")
        assert (found.after_ms, found.copies, found.probability, found.share) == (30, 1, 0.5, 0.1)
        [merged] = [note for note in notes if "'first', 'second' are the same call" in note]
        assert merged.endswith(
            "; 10 ms became 30 ms, so the settings copy fewer calls than the plan, and cut less"
        )
        assert any("also serves 'third'" in note for note in notes)

    def test_a_path_whose_method_is_not_known_is_noted(self) -> None:
        for operation, noted in (("/cart", True), ("GET /cart", False), ("s.S/M", False)):
            plan = plan_with({"cart": stage(operation, Reissue(after_ms=10, fraction=0.1))})
            _, notes = hedges(plan, {"cart": StageAddress(host="cart")}, needs="host")
            assert any("no span says by which method 'cart' is called" in note for note in notes) is noted

    def test_the_same_path_elsewhere_is_another_call(self) -> None:
        stages = {"a": stage("/x", LATE, service="one"), "b": stage("/x", LATE, service="two")}
        assert len(hedges(plan_with(stages), {}, needs="host")[0]) == 2

    def test_a_share_that_is_not_stated_is_what_the_budget_buys(self) -> None:
        stages = {"a": stage("/x", Reissue(after_ms=1)), "b": stage("/y")}
        (found,), _ = hedges(plan_with(stages, reissue=0.1), {}, needs="host")
        assert found.share == pytest.approx(0.2)

    def test_what_is_not_known_is_named_with_the_way_out(self) -> None:
        stages = {"lookup": stage("lookup", LATE), "rank": stage("GET /rank", LATE)}
        with pytest.raises(InputError) as refusal:
            grpc_config(plan_with(stages), {})
        words = str(refusal.value)
        assert "stage 'lookup' (and 1 more; --template writes a map with all) names no gRPC method" in words
        assert "'lookup' of 'cart'" in words
        assert 'name its call in --map: {"lookup": "package.Service/Method"}' in words

    def test_only_reissued_stages_need_a_call(self) -> None:
        stages: dict[str, Any] = {"lookup": stage("a.B/C", LATE), "own time": stage("whatever")}
        assert len(hedges(plan_with(stages), {}, needs="grpc")[0]) == 1
