"""Worlds with a drawn cause of slowness, their traces, and what copies truly cut of p99 in them.

Rules, ranges and seeds were committed before any advice was asked about these worlds. `ROUND` is raised when
code was mended after a run, and then all worlds are drawn anew.

**Service.** A door calls 1 to 3 backends one after the other, each with 2 to 6 replicas, which take calls in
turn or at random. A call takes a log-normal time. One backend has a fault, the others have none.

**Kinds**, each after a case from the field, in three modes that siblings take in turn:

- `ms_clock` (G12): single calls stall, and all clocks have a coarse tick (1, 2, 5 or 15.6 ms);
- `request` (G14): some requests take longer on any replica. The attribute that says which is a tenant, a flag
  or a size; it is on the root span or on the backend's span;
- `one_pod` (G16): one replica stalls some calls, pauses at random times, or is slow for all calls;
- `together` (G17): all replicas stop at regular or at random times, or their calls take longer meanwhile;
- `independent`: single calls stall, or each replica pauses by itself, at random or at regular times;
- `nameless`: `independent` or `together` by a coin, and no span names its replica.

**Truth.** Requests of the same world are simulated without and with copies. A copy is one more call at the
time at which it would leave, to another replica. The ledger denies copies by the runtime's own rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.tail.simulation.kept_budgets import replay_ledger
from tests.support.otel.field import filed
from tests.support.otel.promises.worlds import Holds
from tests.support.otel.span_trees import MS, T0, Span

Kind = Literal["ms_clock", "request", "one_pod", "together", "independent", "nameless"]
KINDS: Final[tuple[Kind, ...]] = ("ms_clock", "request", "one_pod", "together", "independent", "nameless")
SIBLINGS: Final = 10
ROUND: Final = (
    2  # 1: before attributes of backends' spans were read, and causes were those of the slowest calls
)
SEED: Final = 53_000_000
TRUTH_REQUESTS: Final = 50_000
BUDGET: Final = 0.05  # the largest that an advice tries
TICKS_MS: Final = (1.0, 2.0, 5.0, 15.625)
MIN_PERIODS: Final = 8  # of stops of all replicas, in a recording
LINK_MS: Final = 0.2  # between the two spans of a call, at either end
TENANTS: Final = ("tenant.id", "customer", "app.workspace", "enduser.id", "merchant.code")
FLAGS: Final = ("app.export", "feature.deep", "report.full")
SIZES: Final = ("rows", "http.request.body.size", "basket.lines", "query.limit")
DECOYS: Final = ("user_agent.name", "geo.region", "app.version", "experiment.arm", "http.request_id")
INSTANCES: Final = ("k8s.pod.name", "service.instance.id", "host.name", "container.id")
NO_HOLDS: Final = Holds(np.empty(0), np.empty(0))

Policy = tuple[float, float]  # age of a call at which it is copied, milliseconds, and probability


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One backend.

    Attributes:
        pods: number of its replicas.
        work_ms: median time of a call.
        spread: sigma of the logarithm of that time.
        in_turn: whether replicas take calls in turn; else at random.
        stall_share: by replica: share of the calls that stall by themselves.
        stall_ms: least and greatest length of such a stall.
        pace: by replica: factor of the time of all calls.
        holds: by replica: times at which it stops.
        slowed: whether calls in these times take longer, by a stall, instead of waiting for their end.
    """

    pods: int
    work_ms: float
    spread: float
    in_turn: bool
    stall_share: tuple[float, ...]
    stall_ms: tuple[float, float] = (1.0, 1.0)
    pace: tuple[float, ...]
    holds: tuple[Holds, ...] = field(repr=False)
    slowed: bool = False

    def choose(self, rng: np.random.Generator, count: int) -> Ints:
        """(n,): replica of each call."""
        if self.in_turn:
            return (np.arange(count) + rng.integers(self.pods)) % self.pods
        return rng.integers(self.pods, size=count)

    def calls(self, rng: np.random.Generator, at_ms: Floats, pod: Ints, weight: Floats) -> Floats:
        """(n,): latency of calls that begin at these times at these replicas, milliseconds."""
        work = self.work_ms * rng.lognormal(0.0, self.spread, len(at_ms)) * weight
        work *= np.asarray(self.pace)[pod]
        stalls = rng.uniform(*self.stall_ms, len(at_ms))
        work += np.where(rng.random(len(at_ms)) < np.asarray(self.stall_share)[pod], stalls, 0.0)
        found = work.copy()
        for each, holds in enumerate(self.holds):
            here = pod == each
            held = holds.latency(at_ms[here], work[here])
            found[here] = (
                np.where(held > work[here], work[here] + stalls[here], held) if self.slowed else held
            )
        return found


@dataclass(frozen=True, kw_only=True)
class World:
    """One service and its fault.

    Attributes:
        cause: kind of the fault; that of the world but for `nameless`.
        faulty: index of the backend with the fault.
        bad_pod: name of the replica with the fault; empty where it is not one.
        period_s: period of a regular fault of all replicas; 0 elsewhere.
        heavy: share of heavy requests, `times` as long at the faulty backend.
        attribute: attribute that says which requests are heavy; empty for none.
        form_of_attribute: `tenant`, `flag` or `size`.
        at_backend: whether that attribute is on the backend's span; else on the root span.
        tick_ms: resolution of the clocks.
        skew_ms: by backend and replica, what the clock is ahead.
        instance: attribute that names replicas; empty for none.
    """

    kind: Kind
    cause: Kind
    seed: int
    mode: int
    rate_per_s: float
    count: int
    own_ms: float
    backends: tuple[Backend, ...]
    faulty: int
    bad_pod: str = ""
    period_s: float = 0.0
    heavy: float = 0.0
    times: float = 1.0
    attribute: str = ""
    form_of_attribute: str = ""
    at_backend: bool = False
    decoys: tuple[str, ...]
    tick_ms: float
    skew_ms: tuple[tuple[float, ...], ...]
    form: str
    instance: str

    def weights(self, rng: np.random.Generator, count: int) -> tuple[Floats, list[str | int | bool]]:
        """(n,) factor of the work of each request at the faulty backend, and its attribute."""
        drawn, light = rng.random(count), rng.integers(3, 40, size=count)
        if self.form_of_attribute == "size":
            size = np.exp(rng.normal(0.0, 1.2, count))
            heavy_from = float(np.exp(1.2 * 2.05))  # the largest fiftieth
            return np.maximum(1.0, self.times * size / heavy_from), [
                int(each) for each in np.ceil(400 * size)
            ]
        heavy = drawn < self.heavy
        weight = np.where(heavy, self.times, 1.0)
        if self.form_of_attribute == "flag":
            return weight, [bool(each) for each in heavy]
        owners = (3 * drawn / self.heavy).astype(np.int64) if self.heavy else light
        return weight, [f"acc-{each}" for each in np.where(heavy, owners, light)]

    def cut(self, policies: Mapping[int, Policy], *, budget: float | None = None, draw: int = 1) -> float:
        """Share by which copies truly lower p99.

        Args:
            policies: by index of the backend: when its calls are copied.
            budget: share of the work that the ledger grants; None for no ledger.
            draw: number of the simulated requests, from 1.
        """
        rng = np.random.default_rng([self.seed, draw])
        at_ms = np.cumsum(rng.exponential(1000 / self.rate_per_s, TRUTH_REQUESTS))
        weight, _ = self.weights(rng, TRUTH_REQUESTS)
        alone = at_ms + self.own_ms
        raced, wanted = alone.copy(), np.zeros(TRUTH_REQUESTS)
        ways: list[tuple[Backend, Floats, Ints, list[int], Policy | None]] = []
        for number, backend in enumerate(self.backends):
            heavy = weight if number == self.faulty else np.ones(TRUTH_REQUESTS)
            pod, seeds = backend.choose(rng, TRUTH_REQUESTS), [self.seed, draw, number, 7]
            ways.append((backend, heavy, pod, seeds, policies.get(number)))
            alone = alone + backend.calls(np.random.default_rng(seeds), alone, pod, heavy)
        typical = sum(each.work_ms for each in self.backends) + 2 * self.own_ms
        for backend, heavy, pod, seeds, policy in ways:
            raced, copied = _raced(backend, raced, heavy, pod, seeds, policy, None)
            wanted += copied * backend.work_ms / typical
        if budget is not None:
            granted = replay_ledger(wanted, at_ms / 1000, budget=budget, terms=LedgerTerms()).granted
            raced = at_ms + self.own_ms
            for backend, heavy, pod, seeds, policy in ways:
                raced, _ = _raced(backend, raced, heavy, pod, seeds, policy, granted)
        before, after = (np.percentile(each + self.own_ms - at_ms, 99) for each in (alone, raced))
        return float(1 - after / before)

    def best_cut(self) -> float:
        """Greatest true cut that `BUDGET` buys with copies at one percentile of the faulty backend."""
        rng = np.random.default_rng([self.seed, 9])
        at_ms = np.cumsum(rng.exponential(1000 / self.rate_per_s, TRUTH_REQUESTS))
        backend, (weight, _) = self.backends[self.faulty], self.weights(rng, TRUTH_REQUESTS)
        calls = backend.calls(rng, at_ms, backend.choose(rng, TRUTH_REQUESTS), weight)
        ages = np.percentile(calls, (85, 90, 95, 97, 98.5)).tolist()
        return max(self.cut({self.faulty: (age, 1.0)}, budget=BUDGET, draw=2) for age in ages)

    def recorded(self, folder: Path) -> Path:
        """Write the traces of the world; the file's path."""
        rng = np.random.default_rng([self.seed, 3])
        at_ms = np.cumsum(rng.exponential(1000 / self.rate_per_s, self.count))
        weight, said = self.weights(rng, self.count)
        decoys = {
            name: [
                f"r{each:x}" for each in rng.integers(1 << 40 if name.endswith("_id") else 5, size=self.count)
            ]
            for name in self.decoys
        }
        begun, calls = at_ms + self.own_ms, []
        for number, backend in enumerate(self.backends):
            heavy = weight if number == self.faulty else np.ones(self.count)
            pod = backend.choose(rng, self.count)
            took = backend.calls(rng, begun, pod, heavy)
            calls.append((begun, took, pod))
            begun = begun + took
        ended = begun + self.own_ms

        def clock(ms: float) -> int:
            return T0 + round(float(ms // self.tick_ms) * self.tick_ms * MS)

        spans: list[Span] = []
        for i in range(self.count):
            own: dict[str, object] = {name: values[i] for name, values in decoys.items()}
            known: dict[str, object] = {self.attribute: said[i]} if self.attribute else {}
            own |= {"http.route": "/page", "http.request.method": "GET"}
            own |= {} if self.at_backend else known
            root = clock(at_ms[i]), clock(ended[i])
            spans.append(Span(i + 1, 1, 0, "door", "GET /page", *root, kind="server", attributes=own))
            for number, (start, took, pod) in enumerate(calls):
                call, end, here = start[i], start[i] + took[i], int(pod[i])
                skew = self.skew_ms[number][here]
                named: dict[str, object] = {}
                named |= {self.instance: f"back{number}-{here}"} if self.instance else {}
                named |= known if self.at_backend and number == self.faulty else {}
                ids = 2 + 2 * number, 3 + 2 * number
                sides = clock(call + LINK_MS + skew), clock(end - LINK_MS + skew)
                spans += [
                    Span(i + 1, ids[0], 1, "door", "GET", clock(call), clock(end), kind="client"),
                    Span(
                        *(i + 1, ids[1], ids[0], f"back{number}", f"GET /b{number}"),
                        *sides,
                        kind="server",
                        attributes=named,
                    ),
                ]
        return filed(folder, spans, self.form)


def _raced(
    backend: Backend,
    begun: Floats,
    weight: Floats,
    pod: Ints,
    seeds: list[int],
    policy: Policy | None,
    granted: Bools | None,
) -> tuple[Floats, Floats]:
    """(n,) ends of calls of which late ones are copied, and which those are."""
    first = backend.calls(np.random.default_rng(seeds), begun, pod, weight)
    if policy is None:
        return begun + first, np.zeros(len(begun))
    rng = np.random.default_rng([*seeds, 1])
    other = (pod + rng.integers(1, backend.pods, size=len(begun))) % backend.pods
    late = (first > policy[0]) & (rng.random(len(begun)) < policy[1])
    late = late if granted is None else late & granted
    second = policy[0] + backend.calls(rng, begun + policy[0], other, weight)
    return begun + np.where(late, np.minimum(first, second), first), late.astype(float)


def world(kind: Kind, sibling: int) -> World:
    """Draw one world.

    Args:
        sibling: number of the world among those of its kind, from 0.
    """
    seed = SEED + 10_000 * ROUND + 100 * KINDS.index(kind) + sibling
    rng = np.random.default_rng(seed)
    cause: Kind = kind if kind != "nameless" else ("independent", "together")[int(rng.integers(2))]
    mode = sibling % 3
    number, count = int(rng.integers(1, 4)), int(rng.integers(1500, 4000))
    slowest_per_s, quickest_per_s = {
        "ms_clock": (15.0, 60.0),
        "request": (1.0, 30.0),
        "one_pod": (2.0, 40.0),
        "together": (2.0, 30.0),
    }.get(cause, (6.0, 50.0))
    rate = float(np.exp(rng.uniform(np.log(slowest_per_s), np.log(quickest_per_s))))
    period_s = float(np.exp(rng.uniform(np.log(8), np.log(120))))
    rate = min(rate, count / (MIN_PERIODS * period_s)) if cause == "together" else rate
    span_ms = 1100 * TRUTH_REQUESTS / rate
    share, shortest = float(rng.uniform(0.015, 0.05)), float(rng.uniform(60, 350))
    backends = [_healthy(rng) for _ in range(number)]
    faulty = int(rng.integers(number))
    bad = int(rng.integers(backends[faulty].pods))
    backends[faulty] = _faulty(rng, backends[faulty], cause, mode, (share, shortest, period_s, span_ms), bad)
    form_of_attribute = ("tenant", "flag", "size")[mode] if cause == "request" else ""
    attributes = {"tenant": TENANTS, "flag": FLAGS, "size": SIZES}.get(form_of_attribute, ("",))
    skewed = sibling % 2 == 1
    return World(
        kind=kind,
        cause=cause,
        seed=seed,
        mode=mode,
        rate_per_s=rate,
        count=count,
        own_ms=float(rng.uniform(0.5, 4)),
        backends=tuple(backends),
        faulty=faulty,
        bad_pod=f"back{faulty}-{bad}" if cause == "one_pod" else "",
        period_s=period_s if cause == "together" and mode != 1 else 0.0,
        heavy=share if cause == "request" else 0.0,
        times=float(rng.uniform(5, 20)),
        attribute=str(rng.choice(attributes)),
        form_of_attribute=form_of_attribute,
        at_backend=bool(rng.random() < 0.3),
        decoys=tuple(str(each) for each in rng.permutation(DECOYS)[: int(rng.integers(1, 4))]),
        tick_ms=TICKS_MS[sibling % 4] if kind == "ms_clock" else 1.0 if sibling % 5 == 4 else 1e-3,
        skew_ms=tuple(
            tuple((rng.uniform(-80, 80, each.pods) if skewed else np.zeros(each.pods)).tolist())
            for each in backends
        ),
        form=str(rng.choice(("otlp", "jaeger", "zipkin"))),
        instance="" if kind == "nameless" else str(rng.choice(INSTANCES)),
    )


def _healthy(rng: np.random.Generator) -> Backend:
    pods = int(rng.integers(2, 7))
    return Backend(
        pods=pods,
        work_ms=float(np.exp(rng.uniform(np.log(3), np.log(25)))),
        spread=float(rng.uniform(0.1, 0.35)),
        in_turn=bool(rng.integers(2)),
        stall_share=(0.0,) * pods,
        pace=(1.0,) * pods,
        holds=(NO_HOLDS,) * pods,
    )


def _faulty(
    rng: np.random.Generator,
    sound: Backend,
    cause: Kind,
    mode: int,
    sizes: tuple[float, float, float, float],
    bad: int,
) -> Backend:
    """A backend with the fault of its world.

    Args:
        sizes: share of slow calls, shortest stall in milliseconds, period in seconds, and time that is
            covered, milliseconds.
        bad: replica with the fault, where it is one.
    """
    share, shortest, period_s, span_ms = sizes
    stall = shortest, shortest * float(rng.uniform(1.1, 2.5))
    pods = range(sound.pods)
    shares, pace, holds, slowed = sound.stall_share, sound.pace, list(sound.holds), False
    one = min(0.4, share * sound.pods)  # of the bad replica's calls, so that `share` of all calls is slow
    length = float(rng.uniform(80, 600))
    if cause == "ms_clock":
        shares, stall = (share,) * sound.pods, (float(rng.uniform(25, 60)), float(rng.uniform(60, 120)))
    elif cause == "independent" and mode == 0:
        shares = (share,) * sound.pods
    elif cause == "independent":
        regular = [float(rng.uniform(0.8, 1.25)) * length / share for _ in pods]
        holds = [_at_random(rng, span_ms, length, share) for _ in pods]
        holds = holds if mode == 1 else [_in_periods(rng, span_ms, each, length / each) for each in regular]
    elif cause == "together":
        slowed = mode == 2
        common = _at_random(rng, span_ms, 1000 * period_s * share, share)
        holds = [common if mode == 1 else _in_periods(rng, span_ms, 1000 * period_s, share)] * sound.pods
    elif cause == "one_pod" and mode == 0:
        shares = tuple(one if each == bad else 0.0 for each in pods)
    elif cause == "one_pod" and mode == 1:
        holds[bad] = _at_random(rng, span_ms, length, one)
    elif cause == "one_pod":
        factor = float(rng.uniform(4, 10))
        pace = tuple(factor if each == bad else 1.0 for each in pods)
    return Backend(
        pods=sound.pods,
        work_ms=sound.work_ms,
        spread=sound.spread,
        in_turn=sound.in_turn,
        stall_share=shares,
        stall_ms=stall,
        pace=pace,
        holds=tuple(holds),
        slowed=slowed,
    )


def _in_periods(rng: np.random.Generator, span_ms: float, period_ms: float, share: float) -> Holds:
    """Stops once a period, early or late by up to 3% of it."""
    starts = np.arange(rng.uniform(0.1, 0.9) * period_ms, span_ms, period_ms)
    starts = starts + rng.uniform(-0.03, 0.03, len(starts)) * period_ms
    return Holds(starts, starts + share * period_ms * rng.uniform(0.8, 1.2, len(starts)))


def _at_random(rng: np.random.Generator, span_ms: float, length_ms: float, share: float) -> Holds:
    """Stops at random times."""
    number = int(2 * span_ms * share / length_ms) + 50
    gaps = 1.3 * length_ms + rng.exponential(max(1.0, length_ms / share - 1.3 * length_ms), number)
    starts = np.cumsum(gaps)
    starts = starts[starts < span_ms]
    return Holds(starts, starts + length_ms * rng.uniform(0.7, 1.3, len(starts)))
