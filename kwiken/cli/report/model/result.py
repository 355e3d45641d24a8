"""What a demo measured, as its `demo.json` holds it (design 5.1)."""

from __future__ import annotations

import msgspec

from kwiken.errors import InputError
from kwiken.plan import Ladder

VERSION = 1


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Spent(_Struct, frozen=True):
    """What an arm spent, as fractions of its primary work, weighed by the plan's costs.

    Attributes:
        reissue: over the whole arm.
        reissue_worst_10s: the highest over any 10 s of the arm's own time.
        catch_up: what copies of late requests' calls cost over the whole arm; a budget of its own pays them.
        copies: number of calls reissued.
        late_copies: number of calls copied because their request was late.
        retries: number of calls sent again after a failure; these are not reissues.
        calls: number of primary calls.
    """

    reissue: float
    reissue_worst_10s: float
    catch_up: float = 0.0
    copies: int = 0
    late_copies: int = 0
    retries: int = 0
    calls: int = 0


class Cut(_Struct, frozen=True):
    """By how much p99 fell, as a fraction of before; and the bounds of a 90% interval."""

    cut: float
    low: float
    high: float


class ArmCount(_Struct, frozen=True):
    """How an arm was measured.

    Attributes:
        requests: measured requests.
        failed: of these, without an answer.
        seconds: length of its blocks, settling left out.
        replica_cpu: processor time of gateway and replicas, as a share of all cores; None where not measured.
    """

    requests: int
    failed: int
    seconds: float
    replica_cpu: float | None = None


class StageShare(_Struct, frozen=True):
    """What one stage was given, and what it used.

    Attributes:
        name: of the stage.
        cost: share of the service's cost.
        fraction: share of its calls that the plan reissues.
        after_ms: age of a call at which its copy goes; None where there is none.
        budget: share of the whole budget that the plan gives it.
        used: what it spent, as a fraction of all primary work.
        even_fraction: share of its calls that the even spread reissues.
        even_after_ms: likewise, when.
        even_used: what it spent under the even spread.
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
    """How one stage was disturbed.

    Attributes:
        planned: share of the time, as drawn.
        realised: share of the time, as it came.
        bursts: number of pauses.
        pauses: replica, start and end of each, seconds since 1970.
    """

    planned: float
    realised: float
    bursts: int
    pauses: list[tuple[str, float, float]] = []


class Disturbance(_Struct, frozen=True):
    """What was done to the replicas; `law` says by which rule, `stages` how much."""

    calm: bool
    law: str
    stages: dict[str, Paused]


class Settings(_Struct, frozen=True):
    """With what the demo ran."""

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


class Expectation(_Struct, frozen=True):
    """What the plan promised: ladders, and bounds of the ladder after, with their coverage."""

    before: Ladder
    after: Ladder
    bounds: dict[str, tuple[float, float]]
    spent: float
    coverage: float


class DemoResult(_Struct, frozen=True):
    """The whole result.

    Attributes:
        version: 1; others are refused.
        service: its name.
        created: RFC 3339 time.
        before: measured without a plan; latencies count from the moment when a request was due.
        after: measured with the plan.
        even: measured with the same budget spread evenly.
        expected: what the plan promised for `after`.
        budgets: what might be spent, by budget's name.
        spent: what `after` spent.
        spent_even: what `even` spent.
        requests: all that were measured, over the arms.
        failed: of these, without an answer.
        dropped: that the load generator could not send.
        settling: left out since they were due just after a switch of plans.
        cut_p99: by how much p99 fell, for `after` and `even`, and `after_even` for after against even.
        arms: counts of each arm.
        stages: per-stage budget.
        expectation: all that the plan promised.
        disturbance: what was done to the replicas.
        settings: how it ran.
        remarks: what a reader should know, in plain words.
    """

    version: int
    service: str
    created: str
    before: Ladder
    after: Ladder
    even: Ladder
    expected: Ladder
    budgets: dict[str, float]
    spent: Spent
    spent_even: Spent
    requests: int
    failed: int
    dropped: int
    settling: int
    cut_p99: dict[str, Cut]
    arms: dict[str, ArmCount]
    stages: list[StageShare]
    expectation: Expectation
    disturbance: Disturbance
    settings: Settings
    remarks: list[str] = []

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
