"""Istio exporter: resources read by Istio's published fields, and the patch validated by Envoy itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import StageAddress
from kwiken.export.plans.envoy import envoy_bootstrap
from kwiken.export.plans.hedges import Exported
from kwiken.export.plans.istio import istio_documents
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue
from tests.support.otel.exports import comments, plan_with, read_yaml, stage
from tests.support.peers.envoys import refusal

LATE = Reissue(after_ms=20, fraction=0.04)
Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Duration = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d{1,9})?s$")]
Host = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Meta(Strict):
    name: Host


class StringMatch(Strict):
    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.exact, self.prefix, self.regex)) != 1:
            raise ValueError("one of exact, prefix and regex")


class HttpMatch(Strict):
    uri: StringMatch
    method: StringMatch | None = None
    port: Port | None = None


class PortSelector(Strict):
    number: Port


class Destination(Strict):
    host: Host
    port: PortSelector | None = None


class RouteDestination(Strict):
    destination: Destination


class Retry(Strict):
    """Without perTryTimeout: on its own it would cut slow calls off."""

    attempts: Annotated[int, msgspec.Meta(ge=0)]
    retry_on: Text


class HttpRoute(Strict):
    name: Text
    route: Annotated[list[RouteDestination], msgspec.Meta(min_length=1)]
    match: list[HttpMatch] = []
    retries: Retry | None = None


class VirtualServiceSpec(Strict):
    hosts: Annotated[list[Host], msgspec.Meta(min_length=1)]
    http: Annotated[list[HttpRoute], msgspec.Meta(min_length=1)]


class VirtualService(Strict, tag_field="kind", tag="VirtualService"):
    api_version: Literal["networking.istio.io/v1"]
    metadata: Meta
    spec: VirtualServiceSpec


class OutlierDetection(Strict):
    split_external_local_origin_errors: bool
    consecutive_local_origin_failures: Count
    consecutive_gateway_errors: Count
    consecutive_5xx_errors: Count = msgspec.field(name="consecutive5xxErrors")
    interval: Duration = ""
    base_ejection_time: Duration = ""
    max_ejection_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10


class RetryBudget(Strict):
    percent: Annotated[float, msgspec.Meta(gt=0, le=100)]
    min_retry_concurrency: Count


class LoadBalancer(Strict):
    simple: Literal["UNSPECIFIED", "RANDOM", "PASSTHROUGH", "ROUND_ROBIN", "LEAST_REQUEST"]


class TrafficPolicy(Strict):
    load_balancer: LoadBalancer
    retry_budget: RetryBudget
    outlier_detection: OutlierDetection


class DestinationRuleSpec(Strict):
    host: Host
    traffic_policy: TrafficPolicy


class DestinationRule(Strict, tag_field="kind", tag="DestinationRule"):
    api_version: Literal["networking.istio.io/v1"]
    metadata: Meta
    spec: DestinationRuleSpec


class RouteName(Strict):
    name: Text


class VirtualHostMatch(Strict):
    route: RouteName


class RouteConfigurationMatch(Strict):
    vhost: VirtualHostMatch


class ObjectMatch(Strict):
    context: Literal["ANY", "SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY"]
    route_configuration: RouteConfigurationMatch


class Patch(Strict):
    operation: Literal["MERGE"]
    value: dict[str, Any]


class ConfigPatch(Strict):
    apply_to: Literal["HTTP_ROUTE"]
    match: ObjectMatch
    patch: Patch


class EnvoyFilterSpec(Strict):
    config_patches: Annotated[list[ConfigPatch], msgspec.Meta(min_length=1)]


class EnvoyFilter(Strict, tag_field="kind", tag="EnvoyFilter"):
    api_version: Literal["networking.istio.io/v1alpha3"]
    metadata: Meta
    spec: EnvoyFilterSpec


Resource = VirtualService | DestinationRule | EnvoyFilter


def checked(exported: Exported) -> dict[str, dict[str, Any]]:
    """Resources by kind and host's name, each of known fields only, with nothing named twice."""
    found: dict[str, dict[str, Any]] = {"VirtualService": {}, "DestinationRule": {}, "EnvoyFilter": {}}
    for document in read_yaml(exported):
        resource = msgspec.convert(document, Resource)
        same = found[type(resource).__name__]
        assert resource.metadata.name not in same
        same[resource.metadata.name] = resource
    return found


def export(plan: Plan, **targets: StageAddress) -> dict[str, dict[str, Any]]:
    return checked(istio_documents(plan, targets))


class TestValues:
    PLAN = plan_with({"look up": stage("GET /x", Reissue(after_ms=12.5, copies=2, fraction=0.04))})

    def test_the_three_resources_of_a_host(self) -> None:
        found = export(self.PLAN)
        service = found["VirtualService"]["kwiken-cart"].spec
        hedged, rest = service.http
        assert service.hosts == ["cart"]
        assert hedged.match == [HttpMatch(StringMatch(exact="/x"), method=StringMatch(exact="GET"))]
        assert hedged.retries == Retry(attempts=2, retry_on="5xx")
        assert (rest.match, rest.retries) == ([], None)
        (patch,) = found["EnvoyFilter"]["kwiken-cart"].spec.config_patches
        assert patch.match.route_configuration.vhost.route.name == hedged.name == "kwiken-shop-look-up"
        assert patch.patch.value["route"]["hedge_policy"] == {"hedge_on_per_try_timeout": True}
        assert patch.patch.value["route"]["retry_policy"]["per_try_timeout"] == "0.013s"
        rule = found["DestinationRule"]["kwiken-cart"].spec
        assert rule.traffic_policy.retry_budget == RetryBudget(6.0, 1)

    def test_slow_calls_are_never_cut_off(self) -> None:
        """The timeout of an attempt stands only beside the hedge policy."""
        for document in read_yaml(istio_documents(self.PLAN, {})):
            text = yaml.safe_dump(document)
            assert "perTryTimeout" not in text
            assert ("per_try_timeout" in text) == ("hedge_on_per_try_timeout" in text)

    def test_copies_are_no_failures_of_a_replica(self) -> None:
        outliers = export(self.PLAN)["DestinationRule"]["kwiken-cart"].spec.traffic_policy.outlier_detection
        assert outliers.split_external_local_origin_errors
        assert outliers.consecutive_local_origin_failures > 5

    def test_a_port_is_matched_only_where_it_is_known(self) -> None:
        plan = plan_with({"a": stage("/x", LATE), "b": stage("/x", LATE)})
        first, second, rest = export(plan, b=StageAddress(port=81))["VirtualService"]["kwiken-cart"].spec.http
        assert (first.match[0].port, first.route[0].destination.port) == (None, None)
        assert (second.match[0].port, second.route[0].destination.port) == (81, PortSelector(81))
        assert rest.match == []

    def test_regex_and_prefix(self) -> None:
        plan = plan_with({"a": stage("/u/{id}", LATE), "b": stage("", LATE)})
        first, second, _ = export(plan, b=StageAddress(prefix="/p", host="cart"))["VirtualService"][
            "kwiken-cart"
        ].spec.http
        assert first.match[0].uri == StringMatch(regex="/u/[^/]+")
        assert second.match[0].uri == StringMatch(prefix="/p")

    def test_no_probability_is_noted(self) -> None:
        plan = plan_with({"a": stage("/x", Reissue(after_ms=40, probability=0.25, fraction=0.01))})
        exported = istio_documents(plan, {})
        assert "up to 4.00% of calls instead of 1.00%" in comments(exported)
        for note in exported.notes:
            assert note in comments(exported)

    def test_nothing_to_reissue(self) -> None:
        exported = istio_documents(plan_with({"a": stage("whatever")}), {})
        assert read_yaml(exported) == []
        assert "the plan reissues nothing" in comments(exported)

    @pytest.mark.parametrize("host", ["hotel_rates", "a..b", "a.-b", "a" * 64])
    def test_a_host_that_no_mesh_has(self, host: str) -> None:
        with pytest.raises(InputError, match=r"stage 'a': .* is no name of a host in a mesh; .*--map"):
            istio_documents(plan_with({"a": stage("/x", LATE, service=host)}), {})

    def test_routes_of_like_names_are_told_apart(self) -> None:
        plan = plan_with({name: stage(f"/{name}", LATE) for name in ("a-b", "a.b", "a_b")})
        found = export(plan)
        names = [route.name for route in found["VirtualService"]["kwiken-cart"].spec.http]
        patches = found["EnvoyFilter"]["kwiken-cart"].spec.config_patches
        assert len(set(names)) == 4
        assert names[:3] == [patch.match.route_configuration.vhost.route.name for patch in patches]


class TestPatch:
    def test_envoy_takes_it_on_a_route_of_istio(self, tmp_path: Path) -> None:
        """The patch, merged into a route as Istio writes it (a cluster and its retry policy), in a bootstrap."""
        plan = plan_with({"a": stage("/x", Reissue(after_ms=12.5, copies=2))})
        found = export(plan)
        (patch,) = found["EnvoyFilter"]["kwiken-cart"].spec.config_patches
        retries = found["VirtualService"]["kwiken-cart"].spec.http[0].retries
        bootstrap = yaml.safe_load(envoy_bootstrap(plan, {}).text)
        manager = bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0][
            "typed_config"
        ]
        (route, _) = manager["route_config"]["virtual_hosts"][0]["routes"]
        route["route"] = {
            "cluster": route["route"]["cluster"],
            "hedge_policy": patch.patch.value["route"]["hedge_policy"],
            "retry_policy": {
                "retry_on": retries.retry_on,
                "num_retries": retries.attempts,
                **patch.patch.value["route"]["retry_policy"],
            },
        }
        assert set(patch.patch.value) == {"route"}
        assert set(patch.patch.value["route"]) == {"hedge_policy", "retry_policy"}
        assert refusal(yaml.safe_dump(bootstrap), tmp_path) is None


class TestAnyName:
    @given(
        names=st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=4, unique=True),
        service=st.text(max_size=80),
    )
    def test_fits_the_schema(self, names: list[str], service: str) -> None:
        plan = plan_with({name: stage(name, LATE) for name in names}, service=service)
        targets = {name: StageAddress(call=f"/p{turn}", host="h") for turn, name in enumerate(names)}
        exported = istio_documents(plan, targets)
        (virtual,) = checked(exported)["VirtualService"].values()
        assert len({route.name for route in virtual.spec.http}) == len(names) + 1
        for route in virtual.spec.http:
            assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", route.name)
        assert all(line.isprintable() for line in exported.text.splitlines())
