"""Station: one stage of a service in the queueing simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import LedgerBounds
from kwiken.model.service.stage import MAX_FANOUT, MAX_REPLICAS, Reissue
from kwiken.tail.queueing.simulator.pauses import Pauses
from kwiken.tail.queueing.simulator.service_times import Constant, Empirical, ServiceTimes

Dispatch = Literal["random", "envoy", "two", "aged", "least"]
Cancel = Literal["none", "queued", "running"]
NO_TIME: Final = Constant(0.0)


@dataclass(frozen=True, kw_only=True)
class Background:
    """Background work of a stage's replicas, a Poisson process of equal rate at each one.

    Attributes:
        utilisation: share of a replica's time that it takes, from 0 to below 1.
        work: distribution of the time of one piece of work.

    Raises:
        InputError: for a share outside [0, 1), or work with a mean of 0.
    """

    utilisation: float
    work: ServiceTimes

    def __post_init__(self) -> None:
        """Refuse a share outside [0, 1), or work with a mean of 0."""
        if not 0 <= self.utilisation < 1:
            raise InputError(
                f"must be a share from 0 to below 1, not {self.utilisation}", where="background.utilisation"
            )
        if not self.work.mean_ms > 0:
            raise InputError("must be a distribution with a mean above 0", where="background.work")


@dataclass(frozen=True, kw_only=True)
class Earnings:
    """Rules of the account that pays for a stage's copies, which are the runtime's.

    A part of the account is kept for calls denied before. A copy that the account cannot pay is asked for
    again at twice its call's age, as in the runtime.

    Attributes:
        bounds: what may be spent, in micro-units of a call (`kwiken.model.plan.CALL`).
        prompt_only: whether only calls answered before their time-out earn, at the time-out; otherwise all
            calls earn at arrival.
    """

    bounds: LedgerBounds
    prompt_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Station:
    """A stage with its replicas and their queues.

    Attributes:
        work: distribution of the time that a call occupies its replica.
        rest: distribution of the time that a call takes besides, after its work and without occupying a
            replica: network, storage, other services.
        replicas: number of replicas, each of which serves one call at a time, first in, first out; None for
            a stage without queues, only `work` and `rest`.
        dispatch: choice of the replica of a call: `random`; the less loaded of `two` random ones
            (Mitzenmacher 2001); `envoy`, the less loaded of two draws that may be the same replica; `aged`,
            the best of up to 16 by the runtime's score: estimated latency times load, where the age of the
            oldest call counts as latency; the `least` loaded of all. Load is the number of calls without an
            answer: callers cannot tell calls at rest apart.
        fanout: number of calls of one visit; the stage ends with the last.
        reissue: policy of copies; each goes to a replica without an attempt of that call (the least loaded,
            or a random one where dispatch is random). None for none.
        cancel: treatment of the other attempts when the first is answered: `none`: all run on; `queued`:
            attempts not begun are removed; `running`: attempts in service are stopped too.
        earnings: rules of the account that pays for copies; None for an unlimited account.
        copy_correlation: correlation of the normal scores of a copy's rest and its call's, from 0 to below 1;
            needs an `Empirical` rest.
        background: other work of the replicas; None for none.
        pauses: times in which a replica works on nothing, which callers do not see; None for none.

    Raises:
        InputError: for a value outside its range; names the stage and the field.
    """

    name: str
    after: tuple[str, ...] = ()
    work: ServiceTimes
    rest: ServiceTimes = NO_TIME
    replicas: int | None = 1
    dispatch: Dispatch = "two"
    fanout: int = 1
    reissue: Reissue | None = None
    cancel: Cancel = "running"
    earnings: Earnings | None = None
    copy_correlation: float = 0.0
    background: Background | None = None
    pauses: Pauses | None = None

    def __post_init__(self) -> None:
        """Refuse values outside their ranges; names the stage and the field."""
        for label, most in (("replicas", MAX_REPLICAS), ("fanout", MAX_FANOUT)):
            value = getattr(self, label)
            if value is None and label == "replicas":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise self._wrong(label, f"must be a whole number from 1 to {most}, not {value!r}")
        for label, choices in (("dispatch", Dispatch), ("cancel", Cancel)):
            if getattr(self, label) not in get_args(choices):
                known = ", ".join(get_args(choices))
                raise self._wrong(label, f"must be one of {known}, not {getattr(self, label)!r}")
        rho = self.copy_correlation
        if not 0 <= rho < 1 or (rho and not isinstance(self.rest, Empirical)):
            message = f"must be from 0 to below 1, with an Empirical rest, not {rho}"
            raise self._wrong("copy_correlation", message)
        for label in ("background", "pauses"):
            if self.replicas is None and getattr(self, label) is not None:
                raise self._wrong(label, "needs replicas")

    def _wrong(self, label: str, message: str) -> InputError:
        return InputError(message, where=f"stage {self.name!r}: {label}")

    def utilisation(self, visits_per_s: float) -> float:
        """Share of the replicas' time in use by calls and background, without copies; 0 without replicas.

        Args:
            visits_per_s: visits of the stage a second, 0 or more.
        """
        if self.replicas is None:
            return 0.0
        busy = visits_per_s / 1e3 * self.fanout * self.work.mean_ms / self.replicas
        return busy + (self.background.utilisation if self.background is not None else 0.0)

    def visits_per_s(self, utilisation: float) -> float:
        """Visits a second at which the replicas reach a utilisation, background included.

        Raises:
            InputError: for a stage without replicas or work, which no rate keeps busy.
        """
        one = self.utilisation(1.0) - self.utilisation(0.0)
        visits = (utilisation - self.utilisation(0.0)) / one if one > 0 else math.nan
        if not 0 <= visits < math.inf:
            raise self._wrong("utilisation", f"{utilisation} cannot be reached by calls")
        return visits
