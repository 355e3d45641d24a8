"""Events of the simulated cloud: jobs arrive, wait, run and end; nodes boot, idle and are given back.

A job's loss is the mean of that by its neighbours at its start and at its end, beside the load of others on
its host over its time. A batch job that lost more by then runs on for that long. All strategies share this
choice.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.provisioning.offers import NodeOffer, Terms
from kwiken.allocator.provisioning.renting import WaitEstimator
from kwiken.allocator.provisioning.retention import keep_idle_s
from kwiken.base.arrays import Floats
from papers.worlds.cloud.mapping import (
    JobRoute,
    ReservedState,
    RoutedJob,
    dynamic_route,
    route,
)
from papers.worlds.cloud.outcome import CloudOutcome
from papers.worlds.cloud.scenarios import ARRIVALS, CloudJobs
from papers.worlds.cloud.servers import Servers
from papers.worlds.cloud.settings import FULL, OVERPROVISION, CloudSettings, CloudStrategy, Keeping
from papers.worlds.cloud.weather import (
    HOST_SPREAD,
    RESOURCES,
    SCALE,
    SIZES,
    SPIN_UP_FACTOR,
    STEP_S,
    TYPICAL_S,
    batch_slowdown,
    excess,
    experienced,
    latency_factor,
    outside_load,
    spin_up_s,
)

PRIORS: Final = {16: 0.95, 8: 0.80, 4: 0.65, 2: 0.50, 1: 0.40}
LOOK_AHEAD: Final = 20  # jobs of the queue that are tried when the first does not fit
MISBEHAVED: Final = 0.95  # share of the performance alone below which a node is given back at once
MOVE_BELOW: Final = 0.4  # share of the performance alone below which a job moves once to another node
DEFAULT_BATCH: Final = 0.5  # deviation of the size of an unknown batch job, in log units
PEAK_FACTOR: Final = 1.6  # cores of an unknown latency-critical job: sized for its peak
UNKNOWN_LATENCY: Final = 1.25  # loss of an unknown latency-critical job on what it is sized for by guess
SPOT_RATE_PER_S: Final = 1 / 7200.0  # interruptions of a spot node
SPOT_AGAIN_S: Final = 30.0  # work that an interruption undoes
SPOT_MOST_QUALITY: Final = 0.5  # demanded by batch jobs that may run on spot
SAMPLE_S: Final = 10.0
RECENT = 200  # gaps that are looked at
HISTORY: Final = 500  # observations of a kind that are kept
KEPT_S: Final = 1800.0  # age up to which they count
COVERAGE: Final = 0.90
PRIOR_WEIGHT: Final = 10  # observations that the prior counts as
START: Final = 0.62  # the source starts at 60 to 65%
HARD_LIMIT: Final = 0.85
MIN_QUALITY: Final = 0.40
BELOW_HARD: Final = 0.05
INTERVAL_S: Final = 10.0  # of updates
PER_GROWTH: Final = 0.01  # for each job by which the queue grows in a second
PER_QUEUED: Final = 0.002  # for each queued job for each reserved node
PER_CALM_S: Final = 0.0005  # for each second of calm
CALM_S: Final = 60.0  # without a queue, from which on the limit rises


class SoftLimit:
    """Soft limit, updated every ten seconds.

    Args:
        nodes: number of reserved nodes.
        hard: hard limit, a share of the reserved cores.

    Attributes:
        value: soft limit, a share of the reserved cores.
    """

    def __init__(self, nodes: int, *, hard: float = HARD_LIMIT) -> None:
        self.value = START
        self._nodes = max(1, nodes)
        self._most = hard - BELOW_HARD
        self._queued = 0
        self._last_s = 0.0
        self._queue_ended_s = 0.0

    def update(self, now_s: float, queued: int) -> float:
        """Take account of the queue; nothing happens within ten seconds of the last update.

        Args:
            now_s: moment, seconds.
            queued: number of jobs in the queue.
        """
        passed_s = now_s - self._last_s
        if passed_s < INTERVAL_S:
            return self.value
        growth = (queued - self._queued) / passed_s
        if queued:
            self._queue_ended_s = now_s
        calm = now_s - self._queue_ended_s >= CALM_S
        change = -PER_GROWTH * max(0.0, growth) - PER_QUEUED * queued / self._nodes
        change += PER_CALM_S * passed_s * calm
        self.value = min(self._most, max(MIN_QUALITY, self.value + change))
        self._queued, self._last_s = queued, now_s
        return self.value


class QualityRecord:
    """Qualities that were observed, by kind of node.

    Args:
        priors: quality that is assumed before there are observations, a share from 0 to 1, by kind.
    """

    def __init__(self, priors: Mapping[int, float]) -> None:
        self._seen = {kind: deque([(0.0, prior)] * PRIOR_WEIGHT) for kind, prior in priors.items()}
        self._sorted = {kind: [prior] * PRIOR_WEIGHT for kind, prior in priors.items()}

    def observe(self, kind: int, quality: float, now_s: float) -> None:
        """Note a quality.

        Args:
            quality: what a node of this kind offered, a share from 0 to 1.
            now_s: moment, seconds.
        """
        seen, ordered = self._seen[kind], self._sorted[kind]
        seen.append((now_s, quality))
        bisect.insort(ordered, quality)
        while len(seen) > 1 and (seen[0][0] < now_s - KEPT_S or len(seen) > HISTORY):
            _, old = seen.popleft()
            del ordered[bisect.bisect_left(ordered, old)]

    def offered(self, kind: int, coverage: float = COVERAGE) -> float:
        """Quality that a share of the nodes of a kind met or exceeded.

        Args:
            coverage: share of the nodes, 0 to 1; more of it is a lower quality.
        """
        ordered = self._sorted[kind]
        worse = math.ceil(round((1 - coverage) * len(ordered), 9))
        return ordered[max(0, worse - 1)]


class IdleRule:
    """Rule for idle nodes of one size.

    Args:
        size: number of cores of the nodes.
    """

    def __init__(self, size: int, settings: CloudSettings) -> None:
        self._boot_s = TYPICAL_S * SPIN_UP_FACTOR[size] * settings.spin_up_factor
        self._settings = settings
        self._gaps: list[float] = []
        self._offer = NodeOffer(
            name="node",
            node_class="node",
            terms=Terms.ON_DEMAND,
            cores=float(size),
            price_per_hour=float(size),
            boot_s=self._boot_s,
        )

    def reused(self, gap_s: float) -> None:
        """Note that an idle node was used again.

        Args:
            gap_s: time for which the node was idle, seconds.
        """
        self._gaps.append(gap_s)

    def keep_s(self) -> float:
        """Time for which a node that is idle now is kept, seconds."""
        if self._settings.keeping is Keeping.LEARNED:
            return keep_idle_s(self._offer, np.array(self._gaps[-RECENT:]))
        return self._settings.retention * self._boot_s


@dataclass(slots=True)
class _Rented:
    """Node on demand: `server` is its index among full servers, or -1 for a node of one job."""

    size: int
    ordered_s: float
    ready_s: float
    offset: float
    server: int = -1
    spot: bool = False
    idle: int = 0  # number of the time for which the node is idle; a new job makes the timer void
    idle_since_s: float = 0.0
    busy: int = 0


class _Run:
    """One run; see `run_cloud`."""

    def __init__(self, jobs: CloudJobs, strategy: CloudStrategy, settings: CloudSettings, seed: int) -> None:
        self.jobs, self.strategy, self.settings = jobs, strategy, settings
        count = len(jobs.cores)
        # Draws that all strategies share: outside load, hosts, sizes of unknown jobs, coins.
        shared = np.random.default_rng((seed, 1))
        self.load = outside_load(shared, settings.outside_load, 3 * ARRIVALS)
        self.shares = shared.uniform(0.5, 1.5, RESOURCES)
        self.coins = shared.random(count)
        guess = np.exp(DEFAULT_BATCH * shared.standard_normal(count))
        needed = jobs.cores.astype(np.float64)
        self.given = needed.copy()
        if not settings.profiles:
            wanted = np.where(jobs.latency, PEAK_FACTOR * needed, needed * guess)
            self.given = np.clip(np.ceil(wanted), 1, FULL)
        self.sizes = [next(size for size in SIZES if size >= cores) for cores in self.given]
        self.rng = np.random.default_rng((seed, 2))
        peak = float(jobs.ideal_cores().max())
        reserved = {CloudStrategy.SR: peak * (1 + OVERPROVISION)}.get(strategy, 0.0)
        if strategy.hybrid:
            reserved = jobs.floor if settings.reserved_cores is None else settings.reserved_cores
        self.reserved_nodes = math.ceil(reserved / FULL)
        self.reserved = Servers(jobs, self.reserved_nodes)
        self.rented_servers = Servers(jobs, 0)
        self.node_of: dict[int, _Rented] = {}  # of rented servers, by index
        self.idle: dict[int, list[_Rented]] = {size: [] for size in SIZES}
        self.queue: deque[tuple[int, float, float]] = deque()  # job, arrival, estimated wait
        self.soft = SoftLimit(self.reserved_nodes)
        self.quality = QualityRecord(PRIORS)
        self.waits = {size: WaitEstimator() for size in SIZES}
        self.rules = {size: IdleRule(size, settings) for size in SIZES}
        self.used = self.used_latency = 0.0
        self.factors = np.ones(count)  # loss of each job without its wait
        self.looked = np.zeros(count, dtype=np.bool_)  # whether its neighbours were looked at at its end
        self.events: list[tuple[float, int, int, object]] = []
        self.numbers = itertools.count()
        self.up = 0
        self.up_s = 0.0
        self.ended = 0
        self.spun_s, self.spun = 16.0, 1
        self.out = CloudOutcome(
            latency=jobs.latency,
            performance=np.ones(count),
            wait_s=np.zeros(count),
            end_s=np.zeros(count),
            on_reserved=np.zeros(count, dtype=np.bool_),
            reserved_cores=float(FULL * self.reserved_nodes),
            mean_demand=float(jobs.ideal_cores()[60:].mean()),
        )

    # Events

    def play(self) -> CloudOutcome:
        for job, at in enumerate(self.jobs.arrival_s.tolist()):
            self.at(at, 0, job)
        self.at(SAMPLE_S, 3, None)
        now = 0.0
        while self.events:
            now, _, kind, what = heapq.heappop(self.events)
            if kind == 0:
                assert isinstance(what, int)
                self.arrive(what, now)
            elif kind == 1:
                assert isinstance(what, tuple)
                self.end(now, *what)
            elif kind == 2:  # noqa: PLR2004 - an idle node's time is over
                assert isinstance(what, tuple)
                node, number = what
                if node.idle == number and not node.busy:
                    self.give_back(node, now)
            elif self.ended < len(self.jobs.cores):
                self.sample(now)
                self.at(now + SAMPLE_S, 3, None)
        end_s = 60.0 * self.out.end_min
        self.out.active = self.up_s / end_s
        return self.out

    def at(self, when: float, kind: int, what: object) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), kind, what))

    def sample(self, now: float) -> None:
        limit = self.soft.update(now, len(self.queue))
        self.out.limits.append((now, limit, len(self.queue)))
        if self.reserved_nodes:
            self.out.utilisation.append((now, self.utilisation))
            if self.used:
                self.out.latency_cores.append((now, self.used_latency / self.used))
        if self.strategy.hybrid and self.settings.policy == "P8":
            for _ in range(len(self.queue)):  # a job whose wait has grown is moved out
                job, arrived, wait_s = self.queue.popleft()
                if dynamic_route(self.known(job), self.state(job, now)) is JobRoute.ON_DEMAND_FULL:
                    self.rent_full(job, now)
                else:
                    self.queue.append((job, arrived, wait_s))

    def arrive(self, job: int, now: float) -> None:
        if self.strategy is CloudStrategy.SR:
            if not self.reserve(job, now):
                self.wait(job, now)
        elif self.strategy is CloudStrategy.ODF:
            self.rent_full(job, now)
        elif self.strategy is CloudStrategy.ODM:
            self.rent(job, self.size_for(job), now)
        else:
            self.arrive_hybrid(job, now)

    def arrive_hybrid(self, job: int, now: float) -> None:
        state = self.state(job, now)
        policy = self.settings.policy
        if not self.settings.profiles:  # an unknown job: a coin above the soft limit
            policy = "P5" if state.utilisation < state.soft and state.fits else "P1"
        where = route(policy, self.known(job), state)
        if where is JobRoute.RESERVED and self.reserve(job, now):
            return
        if where in {JobRoute.RESERVED, JobRoute.QUEUE}:
            self.wait(job, now)
        elif self.strategy is CloudStrategy.HF or where is JobRoute.ON_DEMAND_FULL:
            self.rent_full(job, now)
        else:
            self.rent(job, self.size_for(job), now)

    def end(self, now: float, job: int, node: _Rented | None, place: int, cores: float) -> None:
        if (more_s := self.second_look(job, node, place, cores)) > 1.0:
            self.at(now + more_s, 1, (job, node, place, cores))
            return
        self.ended += 1
        if node is None:
            self.reserved.release(place, job, cores)
            self.used -= cores
            self.used_latency -= cores * bool(self.jobs.latency[job])
            self.waits[self.size_for(job)].released(now)
            self.serve(now)
            return
        node.busy -= 1
        if node.server >= 0:
            self.rented_servers.release(place, job, cores)
        if node.busy:
            return
        self.out.releases += 1
        node.idle += 1
        node.idle_since_s = now
        # Without profiles there is no prediction that a node could fall short of.
        bad = 1 / self.factors[job] < MISBEHAVED and not self.jobs_own_fault(job)
        if node.server < 0 and (bad or node.spot):
            self.out.at_once += bad
            self.give_back(node, now)
            return
        if node.server < 0:
            self.idle[node.size].append(node)
        keep_s = self.rules[node.size].keep_s()
        self.at(now + keep_s, 2, (node, node.idle))

    def second_look(self, job: int, node: _Rented | None, place: int, cores: float) -> float:
        """Time for which a job runs on, for what its neighbours at its end take from it, seconds."""
        if self.looked[job] or place < 0:
            return 0.0
        self.looked[job] = True
        servers = self.reserved if node is None else self.rented_servers
        jobs, out = self.jobs, self.out
        pressure = servers.of_others(place, job, cores)
        factor = self.factor(job, excess(pressure, jobs.tolerated[job], jobs.weights[job]))
        before = float(self.factors[job])
        self.factors[job] = mean = max(before, (before + factor) / 2)
        if jobs.latency[job]:
            out.performance[job] = 1 / mean
            return 0.0
        more_s = float(jobs.length_s[job]) * (mean - before)
        out.end_s[job] += more_s
        out.performance[job] = jobs.length_s[job] / (out.end_s[job] - jobs.arrival_s[job])
        return more_s

    def jobs_own_fault(self, job: int) -> bool:
        """Whether the job has fewer cores than it needs."""
        return bool(self.given[job] < self.jobs.cores[job])

    def give_back(self, node: _Rented, now: float) -> None:
        if node.server >= 0:
            self.rented_servers.drop(node.server)
            del self.node_of[node.server]
        elif node in self.idle[node.size]:
            self.idle[node.size].remove(node)
        node.idle += 1
        core_s = node.size * (now - node.ordered_s)
        if node.spot:
            self.out.spot_core_s += core_s
        else:
            self.out.rented_core_s += core_s
        self.up_s += now - node.ordered_s
        self.up -= node.size

    # Reserved nodes

    @property
    def utilisation(self) -> float:
        return self.used / (FULL * self.reserved_nodes) if self.reserved_nodes else 1.0

    @property
    def full_spin_up(self) -> float:
        return self.spun_s / self.spun

    def known(self, job: int) -> RoutedJob:
        offered = self.quality.offered(self.kind_for(job))
        return RoutedJob(float(self.jobs.quality[job]), offered, float(self.coins[job]))

    def kind_for(self, job: int) -> int:
        return FULL if self.strategy is CloudStrategy.HF else self.size_for(job)

    def state(self, job: int, now: float) -> ReservedState:
        fits = bool((self.reserved.free[: self.reserved.count] >= self.given[job]).any())
        return ReservedState(
            utilisation=self.utilisation,
            fits=fits,
            soft=self.soft.value,
            hard=HARD_LIMIT,
            wait_s=self.wait_for(job, now) if self.utilisation >= self.soft.value else 0.0,
            spin_up_s=self.full_spin_up,
        )

    def wait_for(self, job: int, now: float) -> float:
        return self.waits[self.size_for(job)].estimate_s(now, len(self.queue))

    def reserve(self, job: int, now: float) -> bool:
        cores = float(self.given[job])
        place = self.reserved.best(job, cores, profiles=self.settings.profiles)
        if place is None:
            return False
        pressure = self.reserved.pressure[place].copy()
        self.reserved.take(place, job, cores)
        self.used += cores
        self.used_latency += cores * bool(self.jobs.latency[job])
        self.out.on_reserved[job] = True
        self.begin(job, now, excess(pressure, self.jobs.tolerated[job], self.jobs.weights[job]), None, place)
        return True

    def wait(self, job: int, now: float) -> None:
        self.queue.append((job, now, self.wait_for(job, now)))

    def serve(self, now: float) -> None:
        tried = 0
        hard = HARD_LIMIT if self.strategy.hybrid and self.settings.policy == "P8" else 1.0
        place = 0
        while place < len(self.queue) and tried < LOOK_AHEAD and self.utilisation < hard:
            job, arrived, estimated = self.queue[place]
            if self.reserve(job, now):
                del self.queue[place]
                size = self.size_for(job)
                self.waits[size].waited(now, now - arrived)
                self.out.wait_errors.append((float(size), abs(estimated - (now - arrived))))
            else:
                place += 1
                tried += 1

    # Rented nodes

    def size_for(self, job: int) -> int:
        return self.sizes[job]

    def bigger(self, job: int, size: int) -> int:
        """Size that offers the quality that a job demands; hybrids rent it for demanding jobs."""
        return next(
            (one for one in SIZES if one >= size and self.quality.offered(one) > self.jobs.quality[job]), FULL
        )

    def rent(self, job: int, size: int, now: float) -> None:
        if self.strategy.hybrid and self.settings.profiles:
            size = self.bigger(job, size)
        spot = self.may_use_spot(job)
        if self.idle[size] and not spot:
            node = self.idle[size].pop()
            self.rules[size].reused(now - node.idle_since_s)
            node.idle += 1
        else:
            node = self.order(size, now, spot=spot)
        node.busy += 1
        pressure = self.outside(node, now, float(self.jobs.length_s[job]))
        self.observe(node, pressure, now)
        beyond = excess(pressure, self.jobs.tolerated[job], self.jobs.weights[job])
        if not spot and self.performance(job, beyond) < MOVE_BELOW:
            moved = self.order(size, now, spot=False)
            pressure = self.outside(moved, now, float(self.jobs.length_s[job]))
            again = excess(pressure, self.jobs.tolerated[job], self.jobs.weights[job])
            node.busy -= 1
            self.give_back(node, now)
            self.out.moved_s += moved.ready_s - now
            node, beyond = moved, again
            node.busy += 1
        self.begin(job, max(now, node.ready_s), beyond, node, -1)

    def may_use_spot(self, job: int) -> bool:
        return bool(
            self.settings.tolerant_spot
            and not self.jobs.latency[job]
            and self.jobs.quality[job] < SPOT_MOST_QUALITY
        )

    def rent_full(self, job: int, now: float) -> None:
        cores = float(self.given[job])
        servers = self.rented_servers
        place = servers.best(job, cores, profiles=self.settings.profiles)
        if place is None:
            place = servers.add()
            node = self.order(FULL, now)
            node.server = place
            self.node_of[place] = node
        node = self.node_of[place]
        if not node.busy and node.idle:
            self.rules[FULL].reused(now - node.idle_since_s)
        node.idle += 1
        node.busy += 1
        outside = self.outside(node, now, float(self.jobs.length_s[job]))
        self.observe(node, outside, now)
        pressure = np.minimum(SCALE, outside + servers.pressure[place])
        servers.take(place, job, cores)
        beyond = excess(pressure, self.jobs.tolerated[job], self.jobs.weights[job])
        self.begin(job, max(now, node.ready_s), beyond, node, place)

    def order(self, size: int, now: float, *, spot: bool = False) -> _Rented:
        took = self.settings.spin_up_factor * spin_up_s(self.rng, size)
        if size == FULL:
            self.spun_s, self.spun = self.spun_s + took, self.spun + 1
        self.out.obtained += 1
        self.up += size
        self.out.peak_cores = max(self.out.peak_cores, self.up)
        offset = float(self.rng.uniform(-HOST_SPREAD, HOST_SPREAD))
        return _Rented(size, now, now + took, offset, spot=spot)

    def outside(self, node: _Rented, now: float, length_s: float) -> Floats:
        """Pressure by others over the time of a job: the mean of three moments."""
        moments = now + length_s * np.array([0.1, 0.5, 0.9])
        steps = np.minimum((moments / STEP_S).astype(np.int64), len(self.load) - 1)
        level = float(np.clip(self.load[steps].mean() + node.offset, 0.0, 1.0))
        return experienced(level, node.size, self.shares)

    def observe(self, node: _Rented, pressure: Floats, now: float) -> None:
        """Note what the node offers: what the pressure on it leaves of the largest resource."""
        self.quality.observe(node.size, 1.0 - float(pressure.max()) / SCALE, now)

    def performance(self, job: int, beyond: float) -> float:
        factor = latency_factor(beyond) if self.jobs.latency[job] else batch_slowdown(beyond)
        return 1.0 / factor

    # Jobs

    def factor(self, job: int, beyond: float) -> float:
        """Loss of a job as a factor of its time, or of its p99, alone."""
        jobs = self.jobs
        factor = latency_factor(beyond) if jobs.latency[job] else batch_slowdown(beyond)
        if self.jobs_own_fault(job):
            factor *= float(jobs.cores[job] / self.given[job])
        if not self.settings.profiles and jobs.latency[job]:
            factor *= UNKNOWN_LATENCY
        return factor

    def begin(self, job: int, now: float, beyond: float, node: _Rented | None, place: int) -> None:
        jobs, out = self.jobs, self.out
        factor = self.factor(job, beyond)
        length_s = float(jobs.length_s[job])
        lasts_s = length_s if jobs.latency[job] else length_s * factor
        if node is not None and node.spot:
            broken = self.rng.poisson(SPOT_RATE_PER_S * lasts_s)
            lasts_s += broken * (SPOT_AGAIN_S + spin_up_s(self.rng, node.size))
            factor = lasts_s / length_s
        wait_s = now - float(jobs.arrival_s[job])
        out.wait_s[job] = wait_s
        self.factors[job] = factor
        out.end_s[job] = now + lasts_s
        out.performance[job] = 1 / factor if jobs.latency[job] else length_s / (wait_s + lasts_s)
        self.at(now + lasts_s, 1, (job, node, place, float(self.given[job])))


def run_cloud(jobs: CloudJobs, strategy: CloudStrategy, settings: CloudSettings, seed: int) -> CloudOutcome:
    """Run the jobs of a scenario under a strategy.

    Runs of one seed share the arrivals, the load by others and what is drawn for jobs, whatever the strategy.

    Args:
        seed: seed of the load by others, spin-ups and hosts.
    """
    return _Run(jobs, strategy, settings, seed).play()
