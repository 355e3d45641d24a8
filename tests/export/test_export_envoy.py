"""Envoy exporter: content of the bootstrap, and its validation by Envoy itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import StageAddress
from kwiken.export.plans.envoy import envoy_bootstrap
from kwiken.export.plans.hedges import Exported
from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, StagePlan
from kwiken.model.service.stage import Reissue
from tests.support.otel.exports import comments, plan_with, read_yaml, stage
from tests.support.peers.envoys import refusal

LATE = Reissue(after_ms=20, fraction=0.04)
HOSTILE = "x\n---\nevil: {}\n# \u2028\u202e\x00\x1b[31m\"'é"


def document(exported: Exported) -> Any:
    (found,) = read_yaml(exported)
    return found["static_resources"]


def hosts_of(exported: Exported) -> list[Any]:
    (listener,) = document(exported)["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    hosts: list[Any] = manager["route_config"]["virtual_hosts"]
    return hosts


def routes_of(exported: Exported) -> list[Any]:
    return [route for host in hosts_of(exported) for route in host["routes"]]


def hedged_of(exported: Exported) -> list[Any]:
    return [route for route in routes_of(exported) if "hedge_policy" in route["route"]]


MANY = plan_with(
    {
        "grpc": stage("shop.Cart/Get", Reissue(after_ms=12.5, copies=2, fraction=0.07), service="Cart"),
        "http": stage(
            "GET /users/{id}", Reissue(after_ms=8000, probability=0.43, fraction=0.01), service="users"
        ),
        "plain": stage("/users", LATE, service="users"),
        "odd one": stage(HOSTILE, LATE, service=HOSTILE),
        "left": stage("whatever"),
    }
)
MAP = {"odd one": StageAddress(prefix="/odd", host="odd_one.svc", port=8080), "plain": StageAddress(port=81)}


class TestEnvoyTakesIt:
    def test_every_kind_of_call(self, tmp_path: Path) -> None:
        assert refusal(envoy_bootstrap(MANY, MAP).text, tmp_path) is None

    def test_a_plan_without_reissues(self, tmp_path: Path) -> None:
        exported = envoy_bootstrap(plan_with({"a": stage("whatever")}), {})
        assert refusal(exported.text, tmp_path) is None
        assert read_yaml(exported) == [{"static_resources": {}}]
        assert "the plan reissues nothing" in comments(exported)

    @pytest.mark.parametrize(
        "path", ["/1e3", "/~", "/-.,;!$&'()*+:=@%20", "/true", "/" + "a" * 5000, "/a\\b", '/"{x}']
    )
    def test_odd_paths(self, path: str, tmp_path: Path) -> None:
        exported = envoy_bootstrap(
            plan_with({"a": stage("", LATE)}), {"a": StageAddress(prefix=path, host="1e3")}
        )
        assert refusal(exported.text, tmp_path) is None
        assert hedged_of(exported)[0]["match"] == {"prefix": path}

    @pytest.mark.parametrize("path", ["/a-b.c/{id}", "/~x/:id/$y", "/(a+b)/<int:n>/[c]^|?".rstrip("?")])
    def test_expressions_of_paths(self, path: str, tmp_path: Path) -> None:
        exported = envoy_bootstrap(plan_with({"a": stage(path, LATE)}), {})
        assert refusal(exported.text, tmp_path) is None
        assert "safe_regex" in hedged_of(exported)[0]["match"]

    def test_envoy_refuses_invalid_settings(self, tmp_path: Path) -> None:
        """The check can fail: a field of another name, a duration in milliseconds."""
        text = envoy_bootstrap(MANY, MAP).text
        for right, wrong in (("hedge_on_per_try_timeout", "hedge_on_timeout"), ('"0.013s"', '"13ms"')):
            assert right in text
            assert refusal(text.replace(right, wrong), tmp_path) is not None


class TestValues:
    def test_delay_copies_and_budget(self) -> None:
        exported = envoy_bootstrap(
            plan_with({"a": stage("/x", Reissue(after_ms=13, copies=2, fraction=0.04))}), {}
        )
        (route,) = hedged_of(exported)
        assert route["match"] == {"path": "/x"}
        assert route["route"]["hedge_policy"] == {"hedge_on_per_try_timeout": True}
        policy = route["route"]["retry_policy"]
        assert policy["per_try_timeout"] == "0.013s"
        assert policy["num_retries"] == 2
        assert policy["retry_on"] == "5xx"
        assert policy["retry_back_off"] == {"base_interval": "0.001s", "max_interval": "0.001s"}
        (cluster,) = document(exported)["clusters"]
        assert cluster["circuit_breakers"]["thresholds"] == [
            {"retry_budget": {"budget_percent": {"value": 6.0}, "min_retry_concurrency": 1}}
        ]

    @pytest.mark.parametrize(("after_ms", "text"), [(12.5, "0.013s"), (0, "0.001s"), (0.3, "0.001s")])
    def test_delays_are_rounded_up_with_a_note(self, after_ms: float, text: str) -> None:
        exported = envoy_bootstrap(plan_with({"a": stage("/x", Reissue(after_ms=after_ms))}), {})
        assert hedged_of(exported)[0]["route"]["retry_policy"]["per_try_timeout"] == text
        assert f"a: {after_ms:g} ms became" in comments(exported)

    def test_the_probability_is_a_runtime_fraction(self) -> None:
        exported = envoy_bootstrap(plan_with({"a": stage("/x", Reissue(after_ms=1, probability=0.43))}), {})
        hedged, rest = routes_of(exported)
        assert hedged["match"]["runtime_fraction"] == {
            "default_value": {"numerator": 430_000, "denominator": "MILLION"}
        }
        assert rest["match"] == {"prefix": "/"}
        assert set(rest["route"]) == {"cluster"}

    def test_a_late_copy_gets_a_longer_timeout(self) -> None:
        plan = plan_with({"a": stage("/x", Reissue(after_ms=8000)), "b": stage("/y", Reissue(after_ms=7000))})
        exported = envoy_bootstrap(plan, {})
        late, early = hedged_of(exported)
        assert late["route"]["timeout"] == "16s"
        assert "timeout" not in early["route"]

    def test_grpc_speaks_http2_and_knows_grpc_failures(self) -> None:
        exported = envoy_bootstrap(plan_with({"a": stage("s.S/M", LATE)}), {})
        assert "http2_protocol_options" in exported.text
        assert "unavailable" in hedged_of(exported)[0]["route"]["retry_policy"]["retry_on"]
        assert "http2" not in envoy_bootstrap(plan_with({"a": stage("/x", LATE)}), {}).text

    def test_the_most_exact_route_comes_first(self) -> None:
        plan = plan_with(
            {
                name: stage(name, LATE)
                for name in ("short", "long", "/users/{id}", "/users/me", "GET /users/me")
            }
        )
        targets = {"short": StageAddress(prefix="/"), "long": StageAddress(prefix="/users/")}
        matches = [route["match"] for route in routes_of(envoy_bootstrap(plan, targets))]
        assert matches == [
            {"path": "/users/me", "headers": [{"name": ":method", "string_match": {"exact": "GET"}}]},
            {"path": "/users/me"},
            {"safe_regex": {"regex": "/users/[^/]+"}},
            {"prefix": "/users/"},
            {"prefix": "/"},
            {"prefix": "/"},
        ]

    def test_ports_of_one_host_are_told_apart(self, tmp_path: Path) -> None:
        plan = plan_with({"a": stage("/x", LATE), "b": stage("/x", LATE), "c": stage("/y", LATE)})
        exported = envoy_bootstrap(plan, {"a": StageAddress(port=80), "b": StageAddress(port=81)})
        assert [host["domains"] for host in hosts_of(exported)] == [["cart", "cart:80"], ["cart:81"]]
        assert [len(host["routes"]) for host in hosts_of(exported)] == [3, 2]
        assert refusal(exported.text, tmp_path) is None

    @pytest.mark.parametrize(
        ("ports", "domains"), [([81], [["cart", "cart:81"]]), ([81, 82], [["cart:81"], ["cart:82"]])]
    )
    def test_a_bare_host_means_its_only_port(self, ports: list[int], domains: list[list[str]]) -> None:
        plan = plan_with({f"s{port}": stage("/x", LATE) for port in ports})
        exported = envoy_bootstrap(plan, {f"s{port}": StageAddress(port=port) for port in ports})
        assert [host["domains"] for host in hosts_of(exported)] == domains

    def test_a_host_from_the_spans_is_named(self) -> None:
        plan = plan_with({"mine": stage("/x", LATE), "named": stage("/y", LATE), "left": stage("/z")})
        (note,) = [
            n for n in envoy_bootstrap(plan, {"named": StageAddress(host="h")}).notes if "caller's own" in n
        ]
        assert "the host of 'mine' is the service" in note
        exported = envoy_bootstrap(plan, {name: StageAddress(host="h") for name in ("mine", "named")})
        assert not any("caller's own" in note for note in exported.notes)

    def test_a_service_that_is_no_host_needs_a_map(self) -> None:
        with pytest.raises(
            InputError, match=r"names no HTTP path or gRPC method at a host.*\"host\": \"name\""
        ):
            envoy_bootstrap(plan_with({"a": stage("/x", LATE, service="no host")}), {})

    def test_losses_of_the_export_are_noted_in_the_file_and_beside_the_file(self) -> None:
        lost = StagePlan(
            match=stage("/x").match,
            reissue=Reissue(after_ms=1, probability=0.5),
            partial=PartialPolicy(cutoff_ms=1, wait_ms=None, progress=0.5, loss=0.1),
            catch_up=CatchUpPolicy(after_ms=1),
        )
        exported = envoy_bootstrap(plan_with({"a": lost}), {})
        told = comments(exported)
        for note in exported.notes:
            assert note in told
        for words in (
            "idempotent",
            "not the share of calls",
            "(partial) of 'a'",
            "not learned",
            "runtime_fraction",
        ):
            assert any(words in note for note in exported.notes), words


class TestAnyName:
    @given(
        name=st.text(min_size=1, max_size=40),
        service=st.text(max_size=20),
        prefix=st.text(
            st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=20
        ),
    )
    def test_no_name_leaves_its_place(self, name: str, service: str, prefix: str) -> None:
        plan = plan_with({name: stage(name, LATE)}, service=service)
        exported = envoy_bootstrap(plan, {name: StageAddress(prefix=f"/{prefix}", host="h")})
        (route,) = hedged_of(exported)
        assert route["match"] == {"prefix": f"/{prefix}"}
        assert exported.text.count("\n---") == 0
        for line in exported.text.splitlines():
            assert line.isprintable()

    @given(st.text(max_size=20))
    def test_strings_are_written_so_that_any_reader_gets_them(self, text: str) -> None:
        from kwiken.export.yaml import dump

        written = dump([((), {"a": [text]})], [])
        assert yaml.safe_load(written) == {"a": [text]}
        value = re.search(r"- (.*)", written)
        assert value is not None
        plain = not value[1].startswith('"')
        assert not plain or re.fullmatch(r"[A-Za-z/'][A-Za-z0-9_./@'-]+", value[1])
