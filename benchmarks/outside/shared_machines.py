"""World of shared machines: hyper-threads, caches, memory bandwidth by use, and queues; it judges promises.

Written down before any placement was judged by it. Nothing here knows how contention is predicted.

**Machines**, twelve of each class: `wide`, `quick` and `old`. A core that is allocated is a hyper-thread.

**Jobs** are drawn by `drawn_job`. Three things make a request longer than alone:

1. Hyper-threads: the number of busy threads varies as a Poisson number does; those beyond the number of
   cores share a core, and a thread that shares runs at 55 to 75% of its speed.
2. Cache: replicas divide it by the bytes that they ask for, none more than its working set. Without its
   working set a request moves up to 1.2 to 4 times the bytes.
3. Memory bandwidth: the wait for memory grows with its use, 1 + use^2 / (2 (1 - use)), and no more bytes
   move than the machine has.

Replicas take requests in proportion to their speed. Two jobs in three are services, with a p99 at a rate:
each replica is a queue with as many servers as threads, Poisson arrivals and log-normal times, and the p99
may be `SLACK` above the target, which is the noise of so many requests. One job in three is a batch: its
threads are always busy, and the work per second is judged.

**What is known**: all of 24 past jobs; of a new one four runs and two of three scores, with a noise of 3%.
Tolerated is the level of a kernel (share of bandwidth, cache or threads of `wide`) that costs a replica of
two threads 5%; caused is the share of each that it takes.

**Judgement**: of the targets said to be met as surely as asked, the share that is met; and the cost of all
placed replicas over the number of targets that are met, whatever was said.

**`steered`** was added after the first run. There, each request goes to a random replica, by speeds, as under
a plain balancer; a promise supposes the runtime, which sends it where an answer is expected first.

**`fresh`** draws other jobs: seeds that were written down after a change of the allocator had been chosen on
seeds 11 to 13, and before it was judged. **`free`** draws jobs for the question whether a tenth of
performance is to be bought against neighbours by default: seeds that were written down before either share
was judged on them. **`SHARE`** is that share for all managers but the last, the default's if none is given.

    python -m benchmarks.outside.shared_machines [CONFIDENCE [SHARE] [steered] [fresh | free] [MANAGER ...]]
"""

from __future__ import annotations

import heapq
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.classification import Classifier
from kwiken.allocator.workloads.measurements import Measurements, measurements_from_text
from kwiken.allocator.workloads.profile import Estimate
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Target, Workload
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import PlacingStatus

SEEDS: Final = (5801, 5802, 5803, 5804)
FRESH_SEEDS: Final = (5821, 5822, 5823, 5824)
FREE_SEEDS: Final = (5841, 5842, 5843, 5844, 5845, 5846)
LOADS: Final = (0.3, 0.5)  # threads that jobs need alone on `wide`, as a share of all threads
NODES_OF_CLASS: Final = 12
PAST: Final = 24
NOISE: Final = 0.03
SLACK: Final = 0.05
REQUESTS: Final = 20_000  # of a service, over its replicas
SIZES: Final = ((1, 2.0), (2, 4.0), (4, 8.0), (8, 16.0), (16, 32.0))  # threads and GB
COUNTS: Final = (1, 2, 4, 8, 16)
KERNELS: Final = ("cpu-int", "l3-capacity", "memory-bandwidth")
ROUNDS: Final = 16  # of a fixed point of times and rates
KEPT: Final = "no scores, a quarter kept free"
MANAGERS: Final = ("thrifty", "sampled", "least-loaded", KEPT)


@dataclass(frozen=True)
class Machine:
    """Class of machines: physical cores, GB/s, MB, GHz, GB and cost per hour."""

    cores: int
    bandwidth: float
    cache_mb: float
    ghz: float
    memory_gb: float
    cost: float


MACHINES: Final = {
    "wide": Machine(16, 80.0, 32.0, 2.4, 128.0, 1.0),
    "quick": Machine(8, 50.0, 16.0, 3.6, 64.0, 0.75),
    "old": Machine(12, 40.0, 30.0, 2.0, 96.0, 0.55),
}


@dataclass(frozen=True)
class Job:
    """Truth of a job."""

    gcycles: float  # work of a request alone on a thread, billions of cycles
    gigabytes: float  # bytes that a request moves with its working set in the cache, GB
    stream: float  # GB/s at which one thread moves them while nobody else does
    set_mb: float  # working set of one thread, MB; it grows with the root of the number of threads
    misses: float  # factor of the bytes without any cache, less 1
    shared_speed: float  # speed of a thread beside another one on its core, a share
    locks: float  # growth of the cycles by each further thread of a replica, a share
    coordination: float  # growth of the cycles by each further replica, a share
    variation: float  # coefficient of variation of the time of a request
    service: bool  # whether it serves requests; else its threads are always busy
    threads: float  # that it needs alone on `wide`
    tail: float  # p99 of the target over that of a request alone, a factor


def drawn_job(rng: np.random.Generator) -> Job:
    """One job."""
    time_s = float(np.exp(rng.uniform(math.log(0.002), math.log(0.05))))  # of a request alone on `wide`
    memory = float(rng.beta(1.2, 2.0))  # share of that which is waiting for memory
    stream = float(rng.uniform(3.0, 10.0))
    return Job(
        gcycles=(1 - memory) * time_s * MACHINES["wide"].ghz,
        gigabytes=memory * time_s * stream,
        stream=stream,
        set_mb=float(np.exp(rng.uniform(math.log(0.5), math.log(12.0)))),
        misses=float(rng.uniform(0.2, 3.0)),
        shared_speed=float(rng.uniform(0.55, 0.75)),
        locks=float(rng.uniform(0.0, 0.02)),
        coordination=float(rng.uniform(0.0, 0.01)),
        variation=float(rng.uniform(0.4, 1.2)),
        service=bool(rng.random() < 2 / 3),
        threads=float(np.exp(rng.uniform(math.log(2.0), math.log(24.0)))),
        tail=float(rng.uniform(1.5, 3.5)),
    )


@dataclass(frozen=True)
class Running:
    """One replica: its job, threads, number of replicas of the job, and requests per second."""

    job: Job
    threads: int
    count: int
    offered: float = math.inf


def solved(
    machine: Machine, replicas: Sequence[Running], kernel: str = "", level: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Time of a request of each replica, seconds; its bytes per second, GB/s; and its cache, MB."""
    threads, jobs = np.array([float(one.threads) for one in replicas]), [one.job for one in replicas]
    rows = [(j.gcycles, j.gigabytes, j.stream, j.set_mb, j.misses, j.shared_speed) for j in jobs]
    gcycles, data, stream, sets, misses, shared = np.array(rows).T
    locks, further = np.array([(j.locks, j.coordination) for j in jobs]).T
    count = np.array([one.count for one in replicas])
    work_s = gcycles * (1 + locks * (threads - 1)) * (1 + further * (count - 1)) / machine.ghz
    sets = sets * np.sqrt(threads)
    offered = np.array([one.offered for one in replicas])
    cache_mb = machine.cache_mb * (1 - level * (kernel == "l3-capacity"))
    pressed = machine.bandwidth * level * (kernel == "memory-bandwidth")
    spinning = 2 * machine.cores * level * (kernel == "cpu-int")
    time_s, moved, own_mb = work_s + data / stream, data, sets
    for _ in range(ROUNDS):
        busy = np.minimum(threads, offered * time_s)
        beside = _sharing(float(busy.sum()) + spinning, machine.cores)
        speed = 1 - beside * (1 - shared)
        own_mb = _divided(cache_mb, busy * data / time_s + 1e-12, sets)
        moved = data * (1 + misses * (1 - own_mb / sets))

        def rates(wait: float) -> Floats:
            return np.asarray(np.minimum(offered, threads / (work_s / speed + moved / stream * wait)))  # noqa: B023

        low, high = 1.0, 1e4  # factor of the wait for memory: more wait, fewer bytes, less wait
        for _ in range(20):
            middle = math.sqrt(low * high)
            use = (float((rates(middle) * moved).sum()) + pressed) / machine.bandwidth
            wanted = 1e9 if use >= 1 else 1 + use**2 / (2 * (1 - use))
            low, high = (middle, high) if wanted > middle else (low, middle)
        time_s = 0.5 * time_s + 0.5 * (work_s / speed + moved / stream * low)
    return time_s, np.minimum(offered, threads / time_s) * moved, own_mb


def _sharing(busy: float, cores: int) -> float:
    """Share of the busy threads that share a core."""
    if busy <= 0:
        return 0.0
    deviation = math.sqrt(busy)
    z = (busy - cores) / deviation
    beyond = deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    beyond += (busy - cores) * 0.5 * (1 + math.erf(z / math.sqrt(2)))
    return min(1.0, 2 * max(beyond, 0.0) / busy)


def _divided(cache_mb: float, asked: Floats, sets: Floats) -> Floats:
    """Cache of each replica, MB: by what it asks for, and no more than its working set."""
    own, open_ = np.zeros(len(sets)), np.ones(len(sets), dtype=np.bool_)
    for _ in range(len(sets)):
        left = cache_mb - own[~open_].sum()
        share = np.where(open_, left * asked / max(asked[open_].sum(), 1e-12), own)
        full = open_ & (share >= sets)
        own = np.where(full, sets, np.where(open_, share, own))
        if not full.any() or not (open_ := open_ & ~full).any():
            break
    return np.maximum(own, 1e-9)


def capacity(job: Job, size: int, count: int, name: str, kernel: str = "", level: float = 0.0) -> float:
    """Work per second of always busy replicas, each alone on a machine of a class."""
    (time_s,), _, _ = solved(MACHINES[name], [Running(job, size, count)], kernel, level)
    return count * size / float(time_s)


def p99_s(
    rng: np.random.Generator, job: Job, replicas: Sequence[tuple[int, float, float]], *, steered: bool
) -> float:
    """p99 of a service, seconds, over its replicas: threads, time of a request and rate of each."""
    sigma = math.sqrt(math.log1p(job.variation**2))
    if steered:
        lines = [[0.0] * threads for threads, _, _ in replicas]
        means, ends = [time_s for _, time_s, _ in replicas], []
        spacing_s = 1 / sum(rate for _, _, rate in replicas)
        coming = np.cumsum(rng.exponential(spacing_s, REQUESTS)).tolist()
        work = np.exp(rng.normal(-(sigma**2) / 2, sigma, REQUESTS)).tolist()
        for at, factor in zip(coming, work, strict=True):
            expected = [max(at, line[0]) + mean for line, mean in zip(lines, means, strict=True)]
            chosen = expected.index(min(expected))
            end = max(at, lines[chosen][0]) + means[chosen] * factor
            heapq.heapreplace(lines[chosen], end)
            ends.append(end - at)
        return float(np.quantile(ends, 0.99))
    total, found = sum(rate for _, _, rate in replicas), []
    for threads, time_s, rate in replicas:
        number = max(int(REQUESTS * rate / total), 200)
        arrivals = np.cumsum(rng.exponential(1 / rate, number)).tolist()
        takes = (time_s * np.exp(rng.normal(-(sigma**2) / 2, sigma, number))).tolist()
        free = [0.0] * threads
        for at, taken in zip(arrivals, takes, strict=True):
            end = max(at, free[0]) + taken
            heapq.heapreplace(free, end)
            found.append(end - at)
    return float(np.quantile(found, 0.99))


def target_of(job: Job) -> Target:
    """Target of a job."""
    alone = capacity(job, 2, 1, "wide") * job.threads / 2
    if not job.service:
        return Target(ips=alone)
    sigma = math.sqrt(math.log1p(job.variation**2))
    own_s = 2 / capacity(job, 2, 1, "wide") * math.exp(2.326 * sigma - sigma**2 / 2)
    return Target(p99_ms=1e3 * job.tail * own_s, rate_per_s=0.7 * alone)


def scores(job: Job) -> tuple[list[float], list[float]]:
    """Pressure tolerated and caused by one replica of two threads on `wide`, by kernel."""
    wide, tolerated = MACHINES["wide"], []
    least = 0.95 * capacity(job, 2, 1, "wide")
    for kernel in KERNELS:
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = (low + high) / 2
            enough = capacity(job, 2, 1, "wide", kernel, middle) >= least
            low, high = (middle, high) if enough else (low, middle)
        tolerated.append(high)
    _, (moved,), (own_mb,) = solved(wide, [Running(job, 2, 1)])
    return tolerated, [2 / (2 * wide.cores), own_mb / wide.cache_mb, moved / wide.bandwidth]


def known(rng: np.random.Generator, past: Sequence[Job], new: Sequence[Job]) -> Measurements:
    """Measurements as a user has them: all of past jobs, little of new ones."""
    memory_gb = dict(SIZES)

    def run(job: Job, size: int = 2, count: int = 1, name: str = "wide") -> float:
        return capacity(job, size, count, name) * math.exp(NOISE * rng.standard_normal())

    def noisy(values: Sequence[float]) -> list[float]:
        return [float(np.clip(value + NOISE * rng.standard_normal(), 0.0, 1.0)) for value in values]

    def rows(of: Callable[[Job], list[float]]) -> dict[str, list[float]]:
        return {f"past-{at}": of(job) for at, job in enumerate(past)}

    sizes = [{"cores": cores, "memory_gb": memory} for cores, memory in SIZES]
    classes, told = list(MACHINES), {job: scores(job) for job in past}
    history = {
        "up": {"sizes": sizes, "rows": rows(lambda job: [run(job, size) for size in memory_gb])},
        "out": {"replicas": COUNTS, "rows": rows(lambda job: [run(job, 2, at) for at in COUNTS])},
        "het": {"classes": classes, "rows": rows(lambda job: [run(job, 2, 1, at) for at in classes])},
        "tolerated": {"sources": KERNELS, "rows": rows(lambda job: noisy(told[job][0]))},
        "caused": {"sources": KERNELS, "rows": rows(lambda job: noisy(told[job][1]))},
    }
    workloads: list[dict[str, object]] = []
    for number, job in enumerate(new):
        other = str(rng.choice(["quick", "old"]))
        probed = {"memory-bandwidth", str(rng.choice(KERNELS[:2]))}
        runs: list[tuple[dict[str, object], float]] = [
            ({}, run(job)),
            ({"cores": 8, "memory_gb": memory_gb[8]}, run(job, 8)),
        ]
        runs += [({"replicas": 4}, run(job, 2, 4)), ({"class": other}, run(job, name=other))]
        few = [
            {one: value for one, value in zip(KERNELS, noisy(each), strict=True) if one in probed}
            for each in scores(job)
        ]
        workload: dict[str, object] = {
            "name": f"job-{number}",
            "measure": "ips",
            "tolerated": few[0],
            "caused": few[1],
        }
        workload["runs"] = [{**where, "performance": found, "deviation": NOISE} for where, found in runs]
        if job.service:
            workload |= {"measure": "capacity", "work_variation": job.variation}
        workloads.append(workload)
    reference = {"cores": 2, "memory_gb": memory_gb[2], "class": "wide"}
    document = {"version": 1, "reference": reference, "history": history, "workloads": workloads}
    return measurements_from_text(json.dumps(document), where="shared machines")


def cluster() -> Cluster:
    """Machines as a user lists them."""
    classes = [
        NodeClass(name=name, cores=2.0 * one.cores, memory_gb=one.memory_gb, cost_per_hour=one.cost)
        for name, one in MACHINES.items()
    ]
    nodes = [Node(f"{name}-{at}", name) for name in MACHINES for at in range(NODES_OF_CLASS)]
    return Cluster(tuple(classes), tuple(nodes))


@cache
def prepared(seed: int, load: float) -> tuple[list[Job], Measurements]:
    """New jobs of a draw, and what is known of them."""
    rng = np.random.default_rng([seed, int(100 * load)])
    past, new = [drawn_job(rng) for _ in range(PAST)], list[Job]()
    while sum(job.threads for job in new) < load * float(cluster().cores.sum()):
        new.append(drawn_job(rng))
    return new, known(rng, past, new)


def judged(
    seed: int, load: float, name: str, caution: Caution, *, steered: bool
) -> tuple[int, int, int, int, float]:
    """Targets; those said to be met; those of them that are; all that are met; cost per hour of all."""
    (new, measured), nodes = prepared(seed, load), cluster()
    classifier = Classifier(measured)
    caution = replace(caution, later_loss=0.25) if name == KEPT else caution
    none = np.zeros(len(SOURCES))
    requests = []
    for job, few in zip(new, measured.workloads, strict=True):
        profile = classifier.classify(few).profile()
        if name == KEPT:
            profile = replace(profile, tolerated=Estimate(none + 1.0, none), caused=Estimate(none, none))
        workload = Workload(name=few.name, memory_gb=SIZES[0][1], target=target_of(job), max_replicas=16)
        requests.append(request_for(workload, profile, nodes, caution))
    scheme = scheduler("thrifty" if name == KEPT else name, seed=seed)
    placed = admit_all(requests, NodeLedger(nodes), scheme)
    said = [one.status is PlacingStatus.MET for one in placed]
    running = [
        [(one.node, int(each.request.cores[one.size])) for one in each.sizing.replicas] for each in placed
    ]
    met = met_truly(np.random.default_rng(seed), nodes, new, running, steered=steered)
    both = sum(one and other for one, other in zip(said, met, strict=True))
    return len(new), sum(said), both, sum(met), sum(one.sizing.cost for one in placed)


def met_truly(
    rng: np.random.Generator,
    nodes: Cluster,
    jobs: Sequence[Job],
    running: Sequence[Sequence[tuple[int, int]]],
    *,
    steered: bool,
) -> list[bool]:
    """Whether each job meets its target: nodes and threads of its replicas are `running`."""
    targets = [target_of(job) for job in jobs]
    here: list[list[tuple[int, int]]] = [[] for _ in nodes.nodes]  # by node: job and number of the replica
    for at, replicas in enumerate(running):
        for number, (node, _) in enumerate(replicas):
            here[node].append((at, number))
    speeds = [np.array([float(threads) for _, threads in replicas]) for replicas in running]
    for _ in range(8):  # rates follow speeds
        found = [each.copy() for each in speeds]
        for node, residents in enumerate(here):
            if not residents:
                continue
            some = [
                Running(
                    jobs[at],
                    running[at][number][1],
                    len(running[at]),
                    float((targets[at].rate_per_s or math.inf) * speeds[at][number] / speeds[at].sum()),
                )
                for at, number in residents
            ]
            time_s, _, _ = solved(MACHINES[nodes.nodes[node].node_class], some)
            for (at, number), one, time in zip(residents, some, time_s.tolist(), strict=True):
                found[at][number] = one.threads / time
        speeds = found
    met = []
    for job, target, replicas, speed in zip(jobs, targets, running, speeds, strict=True):
        if not replicas or not job.service:
            met.append(bool(replicas) and float(speed.sum()) >= target.required * (1 - 1e-6))
            continue
        rates = target.required * speed / speed.sum()
        queues = [
            (threads, threads / one, rate)
            for (_, threads), one, rate in zip(replicas, speed.tolist(), rates.tolist(), strict=True)
        ]
        met.append(1e3 * p99_s(rng, job, queues, steered=steered) <= (target.p99_ms or 0.0) * (1 + SLACK))
    return met


def main(words: Sequence[str]) -> None:
    """Print one row for each load and manager."""
    numbers = [float(word) for word in words if word[0].isdigit()]
    caution = Caution(next(iter(numbers), 0.95))
    if numbers[1:]:
        caution = replace(caution, later_loss=numbers[1])
    seeds = FRESH_SEEDS if "fresh" in words else FREE_SEEDS if "free" in words else SEEDS
    managers = [name for name in MANAGERS if name in words] or MANAGERS
    print(
        f"confidence {caution.confidence:g}, {caution.later_loss:g} kept free, {len(seeds)} seeds: "
        "said met -> of these truly met, cost per kept target"
    )
    for load in LOADS:
        for name in managers:
            rows = [judged(seed, load, name, caution, steered="steered" in words) for seed in seeds]
            count, said, both, kept = (sum(row[at] for row in rows) for at in range(4))
            cost = math.fsum(row[4] for row in rows) / max(kept, 1)
            print(
                f"load {load:g} {name:30} {count:4d} targets: {said / count:6.1%} -> "
                f"{both / max(said, 1):6.1%}, {cost:.3f}; kept of all {kept / count:6.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
