"""gRPC: a service config with a hedging policy per method (gRPC proposal A6, message `ServiceConfig`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kwiken.export.calls import Target
from kwiken.export.hedges import Exported, Hedge, coin_notes, hedges, nanoseconds, seconds
from kwiken.plan import Plan

MAX_ATTEMPTS: Final = 5  # clients treat more as 5
MAX_TOKENS: Final = 10
MIN_RATIO: Final = 0.001  # clients read three decimals
# An attempt that fails must not beat one that still runs. These are what servers, queues and networks do;
# the others say something of the request, so every attempt would get them.
NON_FATAL: Final = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN")


def grpc_config(plan: Plan, targets: Mapping[str, Target], *, where: str = "plan") -> Exported:
    """A gRPC service config in JSON: a hedging policy for each method that the plan reissues.

    `hedgingDelay` is the age at which the plan sends a copy, `maxAttempts` the copies and the call itself.

    Args:
        plan: whose reissues to write.
        targets: where each stage is reached.
        where: what to name in errors.

    Raises:
        InputError: when a reissued stage's gRPC method is not known; names the stage.
    """
    found, notes = hedges(plan, targets, needs="grpc", where=where)
    config: dict[str, Any] = {}
    if found:
        # With gRPC's own default, pick_first, a copy would go to the very replica that is slow.
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
    yield "only calls that may run twice: a hedged method must be idempotent"
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
    yield "the delay stays as it is: export again after every new plan"
