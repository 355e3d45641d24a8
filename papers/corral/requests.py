"""Requests of the resource selector's evaluation, and a cluster that accepts or rejects them over time.

All constants were written down before the first comparison. The source's 16,000 machines and 15,000 requests
are scaled down, with the mean number of machines a request, so that a run takes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.corral.tuples.rack_tree import RackTree, TreeReservation
from papers.corral.tuples.tuple_selection import SelectionPolicy, TupleOffer, select_tuple
from papers.mrcute.formulas import (
    MapReduceJob,
    MapReduceProfile,
    SlotsOfMachine,
    reserved_times,
)

MBPS: Final = 1e6 / 8
GBPS: Final = 1e9 / 8
RACKS: Final = 8
PODS: Final = 2
MACHINES_A_RACK: Final = 20
SLOTS: Final = 4  # virtual machines of a machine
MEAN_SIZE: Final = 12.0  # machines that the base tuple asks for, mean of the exponential distribution
MEAN_BANDWIDTH: Final = 500.0  # Mbit/s of the base tuple, likewise
MEAN_RATE: Final = 500.0  # Mbit/s of maps and reduces, likewise
DISK: Final = 1000.0  # Mbit/s of a virtual machine
MIN_SELECTIVITY: Final = 0.1
BYTES_A_SLOT: Final = 8e9  # of input for each virtual machine of the base tuple
REQUESTS: Final = 400
LARGEST_SIZE: Final = 64
MIN_BANDWIDTH: Final = 10.0
TUPLES: Final = 12  # candidates of a request, besides the base
LATE: Final = 1.001  # times the wanted time; less is rounding
MUCH_QUICKER: Final = 0.2  # times the wanted time
TWICE: Final = 2.0  # times the wanted time
OUTLIERS: Final = 0.9  # share of the jobs with an outlier
OUTLIER_STRETCH: Final = 0.5  # of the time, mean of the exponential distribution


@dataclass(frozen=True)
class DeadlineRequest:
    """Job with a deadline.

    Attributes:
        arrival_s: arrival, seconds.
        input_bytes: size of its input, bytes.
        base: tuple that the user would ask for; its time is the time that is wanted.
        offers: tuples that end in time, the base first.
        quicker: tuples that end earlier, the base first.
        stretch: time that its outliers take, as a share of the time without.
    """

    arrival_s: float
    input_bytes: float
    base: TupleOffer
    offers: tuple[TupleOffer, ...]
    quicker: tuple[TupleOffer, ...]
    stretch: float


@dataclass(frozen=True)
class RequestSettings:
    """Settings of a population of requests.

    Attributes:
        occupancy: share of the slots that the base tuples would take.
        bandwidth: mean bandwidth of the base tuples, Mbit per second.
        disk: bandwidth of a virtual machine's disk, Mbit per second.
        slack: share of the wanted time that a request asks to end early.
        requests: number of requests in a run, 1 or more.
        largest: most machines of a tuple, as a multiple of its base's.
    """

    occupancy: float = 0.75
    bandwidth: float = MEAN_BANDWIDTH
    disk: float = DISK
    slack: float = 0.0
    requests: int = REQUESTS
    largest: float = np.inf


def tree_of(oversubscription: float = 10.0, racks: int = RACKS) -> RackTree:
    """Free cluster.

    Args:
        oversubscription: bandwidth of the machines over that of the core, shared by both upper levels.
    """
    step = float(np.sqrt(oversubscription))
    link = GBPS
    rack_link = MACHINES_A_RACK * link / step
    pod_link = rack_link * (racks // PODS) / step
    return RackTree(
        SLOTS,
        np.repeat(np.arange(racks), MACHINES_A_RACK),
        np.repeat(np.arange(PODS), racks // PODS),
        link,
        rack_link,
        pod_link,
    )


def drawn_requests(settings: RequestSettings, seed: int) -> list[DeadlineRequest]:
    """Requests with arrivals of a Poisson process."""
    chance = np.random.default_rng([seed, 11])
    machine = SlotsOfMachine(map_slots=1, reduce_slots=1)
    found: list[DeadlineRequest] = []
    total_slots = RACKS * MACHINES_A_RACK * SLOTS
    drawn = []
    for _ in range(settings.requests):
        size = int(np.clip(round(chance.exponential(MEAN_SIZE)), 2, LARGEST_SIZE))
        bandwidth = float(np.clip(chance.exponential(settings.bandwidth), MIN_BANDWIDTH, 1000.0)) * MBPS
        rates = np.maximum(chance.exponential(MEAN_RATE, 2), 25.0) * MBPS
        selectivities = np.maximum(chance.exponential(1.0, 2), MIN_SELECTIVITY)
        bytes_in = BYTES_A_SLOT * size * float(chance.uniform(0.5, 1.5))
        profile = MapReduceProfile(
            s_map=float(selectivities[0]),
            s_reduce=float(selectivities[1]),
            b_map=float(rates[0]),
            b_reduce=float(rates[1]),
            b_disk=settings.disk * MBPS,
        )
        job = MapReduceJob(
            input_bytes=bytes_in, n_map=LARGEST_SIZE * 4, n_reduce=LARGEST_SIZE, profile=profile
        )
        stretch = float(chance.exponential(OUTLIER_STRETCH)) if chance.random() < OUTLIERS else 0.0
        drawn.append((job, size, bandwidth, bytes_in, stretch))
    sizes = np.unique(np.geomspace(1, LARGEST_SIZE, TUPLES * 2).astype(np.int64))
    bands = np.geomspace(MIN_BANDWIDTH, 1000.0, 40) * MBPS
    grid_n, grid_b = np.meshgrid(sizes, bands, indexing="ij")
    made = []
    for job, size, bandwidth, bytes_in, stretch in drawn:
        wanted = float(np.ravel(reserved_times(job, machine, size, bandwidth).total)[0])
        asked = wanted * (1 - settings.slack)
        times = np.asarray(reserved_times(job, machine, grid_n, grid_b).total)
        base = TupleOffer(size, bandwidth, wanted)
        offers = _least_bandwidth(times, asked, sizes, bands)
        quicker = [
            one
            for share in (1.0, 0.5, 0.25, 0.1)
            for one in _least_bandwidth(times, asked * share, sizes, bands)
        ]
        offers, quicker = (
            [one for one in found if one.size <= settings.largest * size] for found in (offers, quicker)
        )
        made.append((bytes_in, base, (base, *offers), (base, *quicker), stretch))
    mean_load = float(np.mean([base.size * base.time_s for _, base, _, _, _ in made]))
    rate_per_s = settings.occupancy * total_slots / mean_load
    at_s = np.cumsum(chance.exponential(1 / rate_per_s, settings.requests))
    for arrival, (bytes_in, base, offers_in, quicker_in, stretch) in zip(at_s.tolist(), made, strict=True):
        found.append(DeadlineRequest(arrival, bytes_in, base, offers_in, quicker_in, stretch))
    return found


def _least_bandwidth(times: Floats, asked_s: float, sizes: Ints, bands: Floats) -> list[TupleOffer]:
    """One tuple for each size: the least bandwidth on a grid that ends in time."""
    found = []
    for place, size in enumerate(sizes.tolist()):
        fits = np.flatnonzero(times[place] <= asked_s)
        if len(fits):
            found.append(TupleOffer(int(size), float(bands[fits[0]]), float(times[place, fits[0]])))
    return found


@dataclass(frozen=True)
class RequestAdmission:
    """Outcome of the requests of a run.

    Attributes:
        rejected: share of the requests that were rejected.
        goodput: input of the accepted requests, bytes.
        late: share of the accepted jobs that end after the wanted time.
        over_wanted: median of time over wanted time of the accepted jobs.
        much_quicker: share of the accepted jobs that take a fifth of the wanted time or less.
        twice: share of the accepted jobs that take twice the wanted time or more.
        slot_time: slots times time of the accepted tuples, over those of the same requests' base tuples.
    """

    rejected: float
    goodput: float
    late: float
    over_wanted: float
    much_quicker: float
    twice: float = 0.0
    slot_time: float = 1.0


def admitted(
    requests: list[DeadlineRequest],
    policy: SelectionPolicy,
    seed: int,
    *,
    oversubscription: float = 10.0,
    outliers: bool = False,
    oracle: bool = False,
) -> RequestAdmission:
    """Let a cluster take requests one by one under a policy.

    Args:
        policy: choice among tuples; `time` and `fastest` may take tuples that end earlier.
        outliers: whether outliers stretch the jobs' times.
        oracle: whether the base tuple is asked for that ends in time with the outliers that come.
    """
    tree = tree_of(oversubscription)
    chance = np.random.default_rng([seed, 12])
    running: list[tuple[float, int]] = []
    held: dict[int, TreeReservation] = {}
    ratios: list[float] = []
    goodput, rejected = 0.0, 0
    slot_s, base_slot_s = 0.0, 0.0
    for number, request in enumerate(requests):
        while running and running[0][0] <= request.arrival_s:
            tree.take(held.pop(heappop(running)[1]), -1)
        offers = request.quicker if policy in {"time", "fastest"} else request.offers
        if oracle:
            stretch = 1 + request.stretch
            fits = [one for one in request.quicker if one.time_s * stretch <= request.base.time_s * LATE]
            offers = (
                (min(fits, key=lambda one: (abs(one.size - request.base.size), one.time_s)),) if fits else ()
            )
        choice = select_tuple(tree, offers, policy, chance, exact=False)
        if choice is None:
            rejected += 1
            continue
        took = choice.offer.time_s * (1 + (request.stretch if outliers else 0.0))
        held[number] = choice.reservation
        heappush(running, (request.arrival_s + took, number))
        goodput += request.input_bytes
        slot_s += choice.offer.size * choice.offer.time_s
        base_slot_s += request.base.size * request.base.time_s
        ratios.append(took / request.base.time_s)
    found = np.array(ratios or [1.0])
    return RequestAdmission(
        rejected=rejected / len(requests),
        goodput=goodput,
        late=float((found > LATE).mean()),
        over_wanted=float(np.median(found)),
        much_quicker=float((found <= MUCH_QUICKER).mean()),
        slot_time=slot_s / base_slot_s if base_slot_s else 1.0,
    )


def shared_fairly(requests: list[DeadlineRequest], *, oversubscription: float = 10.0) -> RequestAdmission:
    """Let a cluster take requests by slots alone, with links shared fairly among the jobs that cross them.

    Each job asks for the slots of its base tuple, which are taken as near together as they are free. A job's
    bandwidth is the smallest fair share over its links at its start, and the part of its time that depends on
    bandwidth is stretched by it.
    """
    tree = tree_of(oversubscription)
    crossing = [np.zeros(len(link)) for link in tree.links]
    running: list[tuple[float, int]] = []
    held: dict[int, TreeReservation] = {}
    ratios: list[float] = []
    goodput, rejected = 0.0, 0
    for number, request in enumerate(requests):
        while running and running[0][0] <= request.arrival_s:
            old = held.pop(heappop(running)[1])
            tree.take(old, -1)
            for level, (places, need) in enumerate(tree.demands(_flows_of(old))):
                crossing[level][places] -= need
        found = tree.reserve(request.base.size, 0.0, exact=False)
        if found is None:
            rejected += 1
            continue
        tree.take(found)
        share = np.inf
        for level, (places, need) in enumerate(tree.demands(_flows_of(found))):
            crossing[level][places] += need
            used = places[need > 0]
            if len(used):
                share = min(share, float((tree.capacity[level] / crossing[level][used]).min()))
        held[number] = found
        took = request.base.time_s * max(FAIR_FLOOR, min(FAIR_CEILING, request.base.bandwidth / share))
        heappush(running, (request.arrival_s + took, number))
        goodput += request.input_bytes
        ratios.append(took / request.base.time_s)
    times = np.array(ratios or [1.0])
    return RequestAdmission(
        rejected=rejected / len(requests),
        goodput=goodput,
        late=float((times > LATE).mean()),
        over_wanted=float(np.median(times)),
        much_quicker=float((times <= MUCH_QUICKER).mean()),
        twice=float((times >= TWICE).mean()),
    )


FAIR_FLOOR: Final = 0.7  # of the wanted time that a job takes with any bandwidth: maps and reduces
FAIR_CEILING: Final = 5.0


def _flows_of(found: TreeReservation) -> TreeReservation:
    """The reservation with one unit of bandwidth, which counts what crosses each link."""
    return TreeReservation(found.size, 1.0, found.machines, found.counts)
