"""Result of a demo, as in its `demo.json`."""

from __future__ import annotations

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Ladder

VERSION = 1


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Spent(_Struct, frozen=True):
    """Spend of an arm, as fractions of its primary work weighted by the plan's costs.

    Attributes:
        reissue: cost of reissues over the whole arm.
        reissue_worst_10s: highest cost of reissues over any 10 s of the arm's own time.
        catch_up: cost of copies for late requests over the whole arm, which have a budget of their own.
        late_copies: number of calls copied because their request was late.
        retries: number of calls sent again after a failure, which are not reissues.
    """

    reissue: float
    reissue_worst_10s: float
    catch_up: float = 0.0
    copies: int = 0
    late_copies: int = 0
    retries: int = 0
    calls: int = 0


class CutInterval(_Struct, frozen=True):
    """Cut of p99 as a fraction of its value before, with the bounds of a 90% interval."""

    cut: float
    low: float
    high: float


class ArmCount(_Struct, frozen=True):
    """Counts of an arm.

    Attributes:
        failed: number of measured requests without an answer.
        seconds: total length of its blocks without settling time.
        replica_cpu: processor time of gateway, replicas, load generator and supervisor, as a share of
            the processors that the demo might use; None where not measured.
    """

    requests: int
    failed: int
    seconds: float
    replica_cpu: float | None = None


class StageShare(_Struct, frozen=True):
    """Budget and spend of one stage.

    Attributes:
        cost: share of the service's cost.
        fraction: share of its calls that the plan reissues.
        after_ms: age of a call at which its copy is sent; None for no copies.
        budget: share of the whole budget that the plan gives it.
        used: spend of the stage, as a fraction of all primary work.
        even_fraction: share of its calls that the even spread reissues.
        even_after_ms: age of a call at which the even spread sends its copy; None for no copies.
        even_used: spend of the stage under the even spread, as a fraction of all primary work.
    """

    name: str
    cost: float
    fraction: float
    after_ms: float | None
    budget: float
    used: float
    even_fraction: float = 0.0
    even_after_ms: float | None = None
    even_used: float = 0.0


class Paused(_Struct, frozen=True):
    """Disturbance of one stage.

    Attributes:
        planned: share of the time to be paused, as drawn.
        realised: share of the time actually paused.
        pauses: replica, start and end of each pause, in seconds since 1970.
    """

    planned: float
    realised: float
    bursts: int
    pauses: list[tuple[str, float, float]] = []


class Disturbance(_Struct, frozen=True):
    """Disturbance of the replicas: `law` describes the rule, `stages` the pauses."""

    calm: bool
    law: str
    stages: dict[str, Paused]


class Settings(_Struct, frozen=True):
    """Settings of the demo: those of the user, and what followed from them and the machine.

    Attributes:
        seconds: time under load, in seconds; planning came on top.
        rate: requests a second.
        seed: seed of all random numbers.
        learn_s: seconds of load that were learned from.
        rounds: number of rounds, each with one block of each arm.
        block_s: length of a block, in seconds.
        settle_s: seconds left out after each switch of plans.
        order: arms of each round, in order.
        processors: number of processors that the demo might use, a part of one counted as one.
        wall_s: length of the whole demo, in seconds.
        pace: sentence on the rate and its reason; empty in results of earlier versions.
        repeated: number of blocks that told nothing and were repeated.
    """

    seconds: float
    rate: float
    seed: int
    learn_s: float
    rounds: int
    block_s: float
    settle_s: float
    order: list[str]
    processors: int
    wall_s: float
    pace: str = ""
    repeated: int = 0


class Expectation(_Struct, frozen=True):
    """Expectation of the plan: percentiles before and after, with bounds and their coverage."""

    before: Ladder
    after: Ladder
    bounds: dict[str, tuple[float, float]]
    spent: float
    coverage: float


class DemoResult(_Struct, frozen=True):
    """Result of a demo.

    Attributes:
        version: version of the document, 1; others are refused.
        created: time of the plan, RFC 3339.
        before: percentiles measured without a plan; latencies count from the time when a request was due.
        after: percentiles measured with the plan.
        even: percentiles measured with the same budget spread evenly.
        p95: percentiles measured with a copy at the p95 of each stage.
        expected: percentiles that the plan expects for `after`, at the gateway.
        achieved: percentiles of `after` at the gateway, from its traces; all 0 in earlier results.
        achieved_p99_between: 90% interval of that p99, milliseconds, by whole blocks of time; None in earlier
            results.
        budgets: limits by name of the budget, as fractions, over the horizon of the plan's ledger.
        peak: limit of the spend on reissues over any 10 s, as a fraction; None in earlier results.
        drift: relative change of the median at the gateway without a plan, from the time of learning to that
            of the comparison; 0 in earlier results.
        requests: number of measured requests of all arms.
        failed: number of measured requests without an answer.
        dropped: number of requests that the load generator could not send.
        settling: number of requests left out because they were due just after a switch of plans, or in a
            block that was repeated.
        cut_p99: cuts of p99 for `after` and `even`, and `after_even` and `after_p95` for after against these.
        even_for_same: budget that, spread evenly, is expected to reach the plan's p99; None if none does.
        stages: budget and spend of each stage.
        meanwhile: expectation of the plan for the requests that ran without it in the minutes of the
            comparison; None in earlier results, and for fewer than 100 such requests.
    """

    version: int
    service: str
    created: str
    before: Ladder
    after: Ladder
    even: Ladder
    p95: Ladder
    expected: Ladder
    budgets: dict[str, float]
    spent: Spent
    spent_even: Spent
    spent_p95: Spent
    requests: int
    failed: int
    dropped: int
    settling: int
    cut_p99: dict[str, CutInterval]
    arms: dict[str, ArmCount]
    stages: list[StageShare]
    expectation: Expectation
    disturbance: Disturbance
    settings: Settings
    remarks: list[str] = []
    achieved: Ladder = Ladder()
    peak: float | None = None
    drift: float = 0.0
    achieved_p99_between: tuple[float, float] | None = None
    meanwhile: Expectation | None = None
    even_for_same: float | None = None

    def __post_init__(self) -> None:
        """Refuse other versions."""
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, not {self.version}")


def read_result(text: str, *, where: str) -> DemoResult:
    """Read a `demo.json`.

    Raises:
        InputError: for anything but a result of version 1 with known fields only.
    """
    try:
        return msgspec.json.decode(text, type=DemoResult)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(str(error), where=where) from error
