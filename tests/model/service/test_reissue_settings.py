"""Settings of a reissue and of attempts: their ranges, and that a document says nothing of those not used."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.codec import service_from_dict, service_to_dict
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Following, Reissue, Stage

FOLLOW = Following(quantile=0.95, least_ms=10, most_ms=80)


def plan_with(policy: Reissue) -> Plan:
    return Plan(
        version=1,
        service="shop",
        created="",
        profile="",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="calls", stages={"s": 1.0}),
        stages={"s": StagePlan(reissue=policy)},
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"quantile": 0.0},
        {"quantile": 1.0},
        {"quantile": float("nan")},
        {"least_ms": 0.0},
        {"least_ms": 81.0},
        {"most_ms": 1e9},
        {"most_ms": float("inf")},
    ],
)
def test_a_following_delay_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"quantile|least_ms"):
        Following(**{"quantile": 0.95, "least_ms": 10.0, "most_ms": 80.0} | wrong)


def test_a_negative_body_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="max_body_bytes must be 0 or more, not -1"):
        Reissue(after_ms=1, max_body_bytes=-1)


def test_a_document_says_nothing_of_settings_that_are_not_used() -> None:
    text = msgspec.json.encode(Reissue(after_ms=5.0)).decode()
    assert text == '{"after_ms":5.0,"probability":1.0,"copies":1,"fraction":0.0}'


def test_settings_survive_a_plans_document() -> None:
    plan = plan_with(Reissue(after_ms=20, follow=FOLLOW, max_body_bytes=4096))
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.digest != plan_with(Reissue(after_ms=20)).digest


def test_a_wrong_setting_in_a_document_is_named() -> None:
    text = plan_with(Reissue(after_ms=20, follow=FOLLOW)).to_json().replace('"least_ms"', '"lowest_ms"')
    with pytest.raises(InputError, match=r"stage 's'.*lowest_ms"):
        Plan.from_json(text)


def test_settings_of_attempts_survive_a_services_document() -> None:
    stage = Stage(name="s", replicas=2, idempotent=True, attempt_timeout_ms=200, reissue=Reissue(after_ms=5))
    service = Service.of("shop", [stage])
    assert service_from_dict(service_to_dict(service))["s"] == stage


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"idempotent": False, "attempt_timeout_ms": 10.0}, "not idempotent, so an attempt that timed out"),
        ({"attempt_timeout_ms": 5000.0}, r"must be below timeout_ms \(5000\), not 5000"),
        ({"attempt_timeout_ms": 0.0}, "attempt_timeout_ms must be a number above 0"),
        ({"attempt_timeout_ms": "1"}, "attempt_timeout_ms must be a number above 0"),
        ({"accept": 3}, "accept must be a function, not 3"),
    ],
)
def test_wrong_settings_of_attempts_are_refused(settings: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"name": "s", "idempotent": True} | settings
    with pytest.raises(DefinitionError, match=message):
        Stage(**whole)
