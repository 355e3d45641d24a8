"""gRPC exporter: a service config with a hedging policy per method (proposal A6, message `ServiceConfig`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kwiken.export.plans.calls import StageAddress
from kwiken.export.plans.hedges import NEEDS_GRPC, Exported, Hedge, coin_notes, hedges, nanoseconds, seconds
from kwiken.model.plan.plan import Plan

MAX_ATTEMPTS: Final = 5  # clients treat more as 5
MAX_TOKENS: Final = 10  # tokens of the throttling bucket
MIN_RATIO: Final = 0.001  # clients read three decimals
# Failures that must not beat an attempt in progress: they come from servers, queues and networks. Other
# status codes depend on the request, so that every attempt would get them.
NON_FATAL: Final = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN")


def grpc_config(plan: Plan, targets: Mapping[str, StageAddress], *, where: str = "plan") -> Exported:
    """Service config of gRPC in JSON: a hedging policy for each method that the plan reissues.

    `hedgingDelay` is the age at which the plan sends a copy, `maxAttempts` the copies and the call itself.

    Raises:
        InputError: for a reissued stage whose gRPC method is not known; names the stage.
    """
    found, notes = hedges(plan, targets, needs=NEEDS_GRPC, where=where)
    config: dict[str, Any] = {}
    if found:
        # gRPC's default, pick_first, would send a copy to the same slow replica.
        config["loadBalancingConfig"] = [{"round_robin": {}}]
    config["methodConfig"] = [_method(hedge) for hedge in found]
    if found:
        ratio = max(MIN_RATIO, round(plan.budgets.reissue, 3))
        config["retryThrottling"] = {"maxTokens": MAX_TOKENS, "tokenRatio": ratio}
        notes = [*notes, *_capped(found), *coin_notes(found, "gRPC"), *_limits(ratio)]
    return Exported(text=json.dumps(config, indent=2) + "\n", notes=tuple(notes))


def _method(hedge: Hedge) -> dict[str, Any]:
    assert hedge.call.grpc is not None
    service, method = hedge.call.grpc
    return {
        "name": [{"service": service, "method": method}],
        "hedgingPolicy": {
            "maxAttempts": min(MAX_ATTEMPTS, 1 + hedge.copies),
            "hedgingDelay": seconds(nanoseconds(hedge.after_ms)),
            "nonFatalStatusCodes": list(NON_FATAL),
        },
    }


def _capped(found: Sequence[Hedge]) -> Iterator[str]:
    for hedge in found:
        if 1 + hedge.copies > MAX_ATTEMPTS:
            yield (
                f"{hedge.label}: {hedge.copies} copies become {MAX_ATTEMPTS - 1}: "
                f"gRPC sends at most {MAX_ATTEMPTS} attempts"
            )


def _limits(ratio: float) -> Iterator[str]:
    yield (
        "clients of gRPC for Java, .NET and Node hedge; C-core (Python, C++, Ruby, PHP) and Go "
        "ignore the hedging policy"
    )
    yield "only for calls that may run twice: a hedged method must be idempotent"
    yield (
        f"lost: the budget. retryThrottling stops copies when more than about {ratio / (1 + ratio):.1%} of "
        "attempts fail, as failures cost a token and successes earn tokenRatio; slow calls cost none, so "
        "nothing bounds the copies when everything is slow"
    )
    yield (
        f"an attempt that fails with {', '.join(NON_FATAL)} never beats one that still runs, and the "
        "next copy goes at once instead of after the delay"
    )
    yield (
        "loadBalancingConfig is round_robin, as pick_first, the default, sends a copy to the replica "
        "that is slow; the name must resolve to every replica"
    )
    yield (
        "a method's entry replaces one for its whole service: repeat that one's timeout and waitForReady here"
    )
    yield "the delay is fixed: export again after every new plan"
