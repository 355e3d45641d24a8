"""gRPC exporter: service configs read by gRPC's published schema and by its own client."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.export.plans.calls import StageAddress
from kwiken.export.plans.grpc import grpc_config
from kwiken.export.plans.hedges import Exported
from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, SpanMatch, StagePlan
from kwiken.model.service.stage import Following, Reissue
from tests.support.otel.exports import plan_with, read_json, stage

CODES = frozenset(
    [
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ]
)
Duration = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d{1,9})?s$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Name(Strict):
    service: Annotated[str, msgspec.Meta(min_length=1)]
    method: str = ""


class HedgingPolicy(Strict):
    max_attempts: Annotated[int, msgspec.Meta(ge=2, le=5)]
    hedging_delay: Duration
    non_fatal_status_codes: list[str] = []


class MethodConfig(Strict):
    name: Annotated[list[Name], msgspec.Meta(min_length=1)]
    hedging_policy: HedgingPolicy


class RetryThrottling(Strict):
    max_tokens: Annotated[int, msgspec.Meta(gt=0, le=1000)]
    token_ratio: Annotated[float, msgspec.Meta(gt=0)]


class ServiceConfig(Strict):
    """The part of grpc.service_config.ServiceConfig that is written, with the bounds that it states."""

    method_config: list[MethodConfig]
    retry_throttling: RetryThrottling | None = None
    load_balancing_config: list[dict[str, dict[str, Any]]] = []


def checked(exported: Exported) -> ServiceConfig:
    config = msgspec.json.decode(exported.text, type=ServiceConfig)
    names = [(name.service, name.method) for method in config.method_config for name in method.name]
    assert len(set(names)) == len(names), "a method is named twice"
    for method in config.method_config:
        assert set(method.hedging_policy.non_fatal_status_codes) <= CODES
    return config


def client_says(config: str) -> str:
    """Objection of gRPC's own client (C-core) to a service config, which it parses as a channel is made."""
    import grpc

    options = [("grpc.service_config", config), ("grpc.service_config_disable_resolution", 1)]
    with grpc.insecure_channel("127.0.0.1:1", options=options) as channel:
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/a.B/C")(b"", timeout=10)
        return f"{failure.value.code().name}: {failure.value.details()}"


class TestValues:
    def test_delay_attempts_and_method(self) -> None:
        plan = plan_with(
            {"lookup": stage("shop.Search/Lookup", Reissue(after_ms=12.5, copies=2, fraction=0.05))}
        )
        config = checked(grpc_config(plan, {}))
        (method,) = config.method_config
        assert method.name == [Name("shop.Search", "Lookup")]
        assert method.hedging_policy.hedging_delay == "0.0125s"
        assert method.hedging_policy.max_attempts == 3
        assert config.retry_throttling == RetryThrottling(10, 0.05)
        assert config.load_balancing_config == [{"round_robin": {}}]

    def test_at_most_five_attempts(self) -> None:
        exported = grpc_config(plan_with({"a": stage("s.S/M", Reissue(after_ms=1, copies=7))}), {})
        assert checked(exported).method_config[0].hedging_policy.max_attempts == 5
        assert any("a: 7 copies become 4" in note for note in exported.notes)

    def test_no_probability_of_copies(self) -> None:
        policy = Reissue(after_ms=40, probability=0.25, fraction=0.01)
        exported = grpc_config(plan_with({"a": stage("s.S/M", policy)}), {})
        assert any("copies 25% of the calls that reach 40 ms" in note and "up to 4.00% of calls instead of 1.00%" in note for note in exported.notes)  # fmt: skip

    def test_a_tiny_budget_still_earns_tokens(self) -> None:
        exported = grpc_config(plan_with({"a": stage("s.S/M", Reissue(after_ms=1))}, reissue=0.0001), {})
        throttling = checked(exported).retry_throttling
        assert throttling is not None
        assert throttling.token_ratio == 0.001

    def test_a_map_names_the_method(self) -> None:
        plan = plan_with({"lookup": stage("lookup", Reissue(after_ms=1))})
        (method,) = checked(grpc_config(plan, {"lookup": StageAddress(call="Greeter/Hello")})).method_config
        assert method.name == [Name("Greeter", "Hello")]

    def test_one_method_at_two_services_is_one_entry(self) -> None:
        stages = {name: stage("s.S/M", Reissue(after_ms=1), service=name) for name in ("one", "two")}
        assert len(checked(grpc_config(plan_with(stages), {})).method_config) == 1

    def test_nothing_to_reissue(self) -> None:
        exported = grpc_config(plan_with({"a": stage("whatever")}), {})
        assert read_json(exported) == {"methodConfig": []}
        assert exported.notes == ("the plan reissues nothing, so there are no settings to write",)
        assert client_says(exported.text).startswith("UNAVAILABLE")

    def test_settings_without_a_counterpart_are_noted(self) -> None:
        lost = StagePlan(
            match=stage("s.S/M").match,
            reissue=Reissue(after_ms=1),
            partial=PartialPolicy(cutoff_ms=1, wait_ms=None, progress=0.5, loss=0.1),
            catch_up=CatchUpPolicy(after_ms=1),
        )
        notes = " ".join(grpc_config(plan_with({"a": lost}), {}).notes)
        assert "(partial) of 'a'" in notes
        assert "(catch_up) of 'a'" in notes
        assert "nothing bounds the copies when everything is slow" in notes

    def test_settings_of_a_reissue_that_the_client_lacks_are_named(self) -> None:
        follow = Following(quantile=0.95, least_ms=10, most_ms=80)
        policy = Reissue(after_ms=40, fraction=0.05, follow=follow, max_body_bytes=100)
        entry = StagePlan(match=SpanMatch(service="cart", operation="/shop.Cart/Get"), reissue=policy)
        notes = " ".join(grpc_config(plan_with({"a": entry}), {}).notes)
        assert "'a' (follow)" in notes
        assert "'a' (max_body_bytes)" in notes


class TestAnyPlan:
    @given(
        after_ms=st.floats(0, 86_400_000),
        copies=st.integers(1, 16),
        probability=st.floats(0, 1, exclude_min=True),
        budget=st.floats(0, 1),
        name=st.text(min_size=1, max_size=30),
    )
    def test_fits_the_schema(
        self, after_ms: float, copies: int, probability: float, budget: float, name: str
    ) -> None:
        policy = Reissue(after_ms=after_ms, copies=copies, probability=probability)
        exported = grpc_config(plan_with({name: stage("s.S/M", policy)}, reissue=budget), {})
        checked(exported)
        assert all(note.isprintable() for note in exported.notes)


class TestClient:
    """C-core ignores hedgingPolicy (it hedges in no language), but parses names, throttling and balancing."""

    PLAN = plan_with(
        {
            "a": stage("a.B/C", Reissue(after_ms=12.5, copies=2)),
            "b": stage("a.B/D", Reissue(after_ms=0)),
        }
    )

    def test_grpc_accepts_the_exported_settings(self) -> None:
        # The words are round_robin's own: with pick_first it says "failed to connect to all addresses".
        assert "connections to all backends failing" in client_says(grpc_config(self.PLAN, {}).text)

    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            ("retryThrottling.maxTokens", 0, "must be greater than 0"),
            ("methodConfig.0.name.0", {"method": "C"}, "method name populated without service name"),
            ("methodConfig.1.name.0.method", "C", "multiple method configs for path /a.B/C"),
            ("loadBalancingConfig.0", {"no_such": {}}, "No known policies in list"),
        ],
    )
    def test_grpc_refuses_invalid_settings(self, path: str, value: Any, words: str) -> None:
        config = read_json(grpc_config(self.PLAN, {}))
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        here = config
        for key in way:
            here = here[key]
        here[last] = value
        assert words in client_says(json.dumps(config))

    def test_grpc_reads_the_delays_as_durations(self) -> None:
        """The delay itself is not parsed, but a method's timeout is a Duration as well."""
        config = read_json(grpc_config(self.PLAN, {}))
        for method in config["methodConfig"]:
            method["timeout"] = method.pop("hedgingPolicy")["hedgingDelay"]
        assert "timeout" not in client_says(json.dumps(config))
        config["methodConfig"][0]["timeout"] = "12.5ms"
        assert "Not a duration" in client_says(json.dumps(config))
