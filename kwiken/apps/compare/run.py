"""Comparison on a running service: each request draws its arm; at the end the plan of before comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kwiken.apps.compare.looks import NONE, PLAN, RIVAL, ComparisonLooks
from kwiken.apps.compare.result import ComparisonResult, arms_of
from kwiken.apps.compare.rival import one_percentile
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.client import ControlClient, NoAnswerError
from kwiken.runtime.gateway.control.steering import AUTOPILOT, PERSON, SteeredSetting
from kwiken.runtime.gateway.steering.gateways import arm_of
from kwiken.tail.autopilot.arms import ArmCounts

POLL_S = 1.0
SHARE = 1 / 3  # of the requests, for each arm
DEFAULT_CONTROL_SHARE = 0.01  # of a gateway that nobody steers
RESTORE_TRIES, RESTORE_PAUSE_S = 10, 1.0
STATUS_ARMS = {NONE: "control", RIVAL: "planned", PLAN: "tried"}


@dataclass(frozen=True)
class Former:
    """Setting of a gateway before a comparison.

    Attributes:
        author: who had put the plan in force; None for nobody.
    """

    plan: Plan | None
    author: str | None


async def run_comparison(
    client: ControlClient,
    plan: Plan,
    *,
    longest_s: float,
    seed: int,
    stop: asyncio.Event,
    say: Callable[[str], None],
) -> ComparisonResult:
    """Compare until both verdicts are there, the time is over, or told to stop; then restore what was.

    Args:
        client: client of the only gateway of the service.
        longest_s: time after which an open comparison ends, seconds.
        seed: seed of the intervals' draws.
        stop: set when the comparison is to end early.
        say: takes a line on each look.

    Raises:
        InputError: the plan does not fit the service, somebody else steers it, or the gateway is lost; the
            message says whether the plan of before is in force again.
    """
    rival = one_percentile(plan)
    former = await _former(client, plan)
    looks = ComparisonLooks()
    seconds: list[dict[str, ArmCounts]] = []
    began = time.monotonic()
    async with _restored(client, former):
        await client.let_autopilot(go_on=True)  # a person's plan is not steered
        setting = SteeredSetting(plan=rival, trial=plan, trial_share=SHARE, control_share=SHARE, epoch=0)
        await client.steer(setting)
        first = last = await client.status(alone=True)
        arms = _arms(first)
        while not (looks.decided or stop.is_set() or time.monotonic() - began >= longest_s):
            await _wait(stop, min(POLL_S, longest_s))
            last = await client.status(alone=True)
            _check_unchanged(last, client.url, trial=plan, rival=rival)
            now = _arms(last)
            seconds.append({arm: now[arm].since(arms[arm]) for arm in now})
            arms = now
            if looks.look(arms):
                say(_line(arms, looks))
    work = last["ledger"]["work"] - first["ledger"]["work"]
    extra = last["ledger"]["spent"] - first["ledger"]["spent"]
    follow = next(stage.reissue.follow for stage in rival.stages.values() if stage.reissue is not None)
    return ComparisonResult(
        service=plan.service,
        seconds=time.monotonic() - began,
        budget=plan.budgets.reissue,
        percentile=100 * follow.quantile if follow else 0.0,
        spent=extra / work if work > 0 else 0.0,
        looks=looks.looks,
        arms=await asyncio.to_thread(arms_of, seconds, looks, seed=seed),
    )


async def _former(client: ControlClient, plan: Plan) -> Former:
    """Setting that is in force now, if a comparison may replace it.

    Raises:
        InputError: another service is there, it has several gateways, or a plan is being tried.
    """
    status = await client.status()
    if status["service"] != plan.service:
        raise InputError(
            f"serves {status['service']!r}, and the plan is for {plan.service!r}", where=client.url
        )
    gateways = len(status.get("gateways", ())) + len(status.get("gateways_silent", ()))
    if gateways > 1:
        raise InputError(
            f"is one of {gateways} gateways, and each draws and counts its own requests; compare on one",
            where=client.url,
        )
    if status["trial"] is not None or (status["author"] == AUTOPILOT and status["autopilot"] is not None):
        raise InputError(
            f"an autopilot steers it; stop that first: kwiken autopilot {plan.service} --hold",
            where=client.url,
        )
    return Former(await client.plan(), status["author"])


@asynccontextmanager
async def _restored(client: ControlClient, former: Former) -> AsyncIterator[None]:
    """Restore the setting of before at the end, whatever ends the block; a person's later act stays.

    Raises:
        InputError: the gateway did not take the plan of before again; says how to apply it.
    """
    try:
        yield
    finally:
        restoring = asyncio.ensure_future(_restore(client, former))
        try:
            await asyncio.shield(restoring)
        except asyncio.CancelledError:
            await restoring
            raise


async def _restore(client: ControlClient, former: Former) -> None:
    for number in range(1, RESTORE_TRIES + 1):
        try:
            if (await client.status(alone=True))["author"] == PERSON:
                return  # the comparison had not begun, or a person put another plan in force meanwhile
            if former.author == AUTOPILOT or (former.author is None and former.plan is None):
                await client.steer(  # so that an autopilot may still act
                    SteeredSetting(
                        plan=former.plan,
                        trial=None,
                        trial_share=0.0,
                        control_share=DEFAULT_CONTROL_SHARE,
                        epoch=0,
                    )
                )
            else:
                await client.put_plan(former.plan)
        except NoAnswerError as error:
            if number == RESTORE_TRIES:
                raise InputError(
                    f"the plan of before is not in force again: {error.problem}; put it by kwiken apply",
                    where=client.url,
                ) from error
            await asyncio.sleep(RESTORE_PAUSE_S)
        else:
            return


def _check_unchanged(status: Status, url: str, *, trial: Plan, rival: Plan) -> None:
    """Check that the gateway still draws between the arms.

    Raises:
        InputError: another setting is in force.
    """
    if (status["plan"], status["trial"]) != (rival.digest, trial.digest):
        raise InputError("another plan was put in force meanwhile, so the comparison ended", where=url)


def _arms(status: Status) -> dict[str, ArmCounts]:
    return {arm: arm_of(status, name) for arm, name in STATUS_ARMS.items()}


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


def _line(arms: Mapping[str, ArmCounts], looks: ComparisonLooks) -> str:
    p99_ms = {arm: counts.quantile_ms(0.99) for arm, counts in arms.items()}
    total = sum(counts.requests for counts in arms.values())
    return (
        f"{total} requests: p99 {p99_ms[NONE]:.0f} ms without a plan, {p99_ms[RIVAL]:.0f} at one percentile, "
        f"{p99_ms[PLAN]:.0f} with the plan" + ("" if looks.decided else f"; next look at {looks.next_at}")
    )
