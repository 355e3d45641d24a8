"""The simulated cluster: 40 nodes of three types, 40 instances of ten applications, eight days of demand.

What the source tells is used as told: types and numbers of nodes, sizes of instances, limits of two
applications, and that use is rarely above single digits of a percent with a much higher 95th percentile. The
rest was chosen before the reported seeds were run. The bandwidth of a node's disks is 100 MB/s for each of
four; demand is the hour's shape of its kind, times lognormal noise of each interval, with rare spikes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.consolidation.interference import AccessMix, pair_losses, pair_scores
from kwiken.storage.consolidation.packing import DiskNodes, PackObjects
from papers.bloc.energy import NodePower
from papers.bloc.published_curve import published_limit

TARGET_MS: Final = 5.0  # mean latency that each application must meet
STEP_S: Final = 600.0  # of the demand
STEPS: Final = 144  # of a day
DAYS: Final = 7  # of history
PARTS: Final = 16  # of an instance whose data is split
SPIKES: Final = 0.002  # share of the steps in which demand is twice as high
RANDOM_SHARE: Final = 0.6  # of the bandwidth of many disks that random accesses get
THINK_MS: Final = 50.0  # of a client between an answer and the next request
NODE_TYPES: Final = ((18, 1200.0, 400.0), (10, 1200.0, 400.0), (12, 5400.0, 1200.0))
POWER: Final = (NodePower(), NodePower(), NodePower(idle_w=264.0, peak_w=364.0))
NVME_POWER: Final = (
    NodePower(idle_w=110.0, peak_w=330.0),
    NodePower(idle_w=110.0, peak_w=330.0),
    NodePower(idle_w=140.0, peak_w=420.0),
)
NVME_FACTOR: Final = 8.0  # of the bandwidth of a node of flash


@dataclass(frozen=True)
class DiskApplication:
    """One application.

    Attributes:
        most: use of a disk at which its latency has no bound, a share of the rated bandwidth.
        random: share of its bytes that are accessed randomly.
        mean: mean use of a node of four disks, a share.
        swing: ratio of the highest demand of a day to the lowest.
    """

    name: str
    most: float
    random: float
    mean: float
    swing: float


APPS: Final = (
    DiskApplication("Websearch", 0.4286, 0.90, 0.056, 5.0),
    DiskApplication("Webmail", 1.0, 0.55, 0.079, 5.0),
    DiskApplication("D-Process", 0.95, 0.50, 0.090, 1.3),
    DiskApplication("Messenger", 0.80, 0.75, 0.068, 4.0),
    DiskApplication("UserContent", 0.70, 0.80, 0.056, 3.0),
    DiskApplication("DisplayAds", 0.65, 0.80, 0.045, 3.0),
    DiskApplication("Exchange", 0.85, 0.70, 0.068, 5.0),
    DiskApplication("TPC-C", 0.60, 0.90, 0.079, 1.5),
    DiskApplication("TPC-E", 0.65, 0.85, 0.090, 1.5),
    DiskApplication("TPC-H", 1.0, 0.50, 0.101, 1.5),
)
INSTANCES: Final = 4  # of each application


@dataclass(frozen=True, eq=False)
class StorageWorld:
    """A drawn cluster.

    Attributes:
        nodes: 40 nodes of three types.
        home: (40,) node of each instance while nothing is consolidated.
        kind: (40,) application of each instance.
        size: (40,) bytes of each instance, in units of GB.
        most: (40,) use at which an instance's latency has no bound, a share.
        demand: (144, 40) bandwidth of each instance in the day, in units of MB/s.
        history: (1008, 40) bandwidth in the week before, in units of MB/s.
        scores: (40, 40) score of each pair of instances, a share.
        power: power of each type of nodes.
    """

    nodes: DiskNodes
    home: Ints
    kind: Ints
    size: Floats
    most: Floats
    demand: Floats
    history: Floats
    scores: Floats
    power: tuple[NodePower, ...]


def drawn_world(seed: int, *, nvme: bool = False) -> StorageWorld:
    """Cluster and demand of a seed.

    Args:
        nvme: whether nodes have flash of today instead of disks, and its power.
    """
    rng = np.random.default_rng([seed, 71])
    factor = NVME_FACTOR if nvme else 1.0
    # The nodes with the least idle power for their capacity come first, as they are tried first.
    types = np.repeat([2, 0, 1], [NODE_TYPES[2][0], NODE_TYPES[0][0], NODE_TYPES[1][0]])
    nodes = DiskNodes(
        names=tuple(f"node-{number}" for number in range(len(types))),
        class_of=types,
        capacity=np.array([NODE_TYPES[kind][1] for kind in types]),
        rated=np.array([NODE_TYPES[kind][2] * factor for kind in types]),
        zone=np.arange(len(types)),
    )
    kind = np.repeat(np.arange(len(APPS)), INSTANCES)
    size = rng.uniform(50.0, 450.0, len(kind))
    base = np.array([app.mean for app in APPS])[kind] * 400.0 * rng.uniform(0.7, 1.3, len(kind))
    swing = np.array([app.swing for app in APPS])[kind]
    peak_at = 13.0 + rng.normal(0.0, 1.5, len(kind))
    week = _demand(base, swing, peak_at, (DAYS + 1) * STEPS, rng)
    mix = AccessMix(
        np.quantile(week, 0.95, axis=0),
        np.array([app.random for app in APPS])[kind],
        1200.0 * factor,
        RANDOM_SHARE * 1200.0 * factor,
    )
    scores = pair_scores(pair_losses(mix))
    np.fill_diagonal(scores, 0.0)  # parts of one instance were never apart
    return StorageWorld(
        nodes,
        rng.permutation(len(types)),
        kind,
        size,
        np.array([app.most for app in APPS])[kind],
        week[-STEPS:],
        week[:-STEPS],
        scores,
        NVME_POWER if nvme else POWER,
    )


def _demand(base: Floats, swing: Floats, peak_at: Floats, steps: int, rng: np.random.Generator) -> Floats:
    hour = (np.arange(steps) * STEP_S / 3600.0)[:, None]
    half = (swing - 1) / (swing + 1)
    day = 1.0 + half * np.cos(2 * np.pi * (hour - peak_at) / 24.0)
    noise = rng.lognormal(-0.005, 0.1, day.shape)
    spikes = np.where(rng.random(day.shape) < SPIKES, 2.0, 1.0)
    return base * day * noise * spikes


def objects_of_world(world: StorageWorld, *, split: bool, target_ms: float = TARGET_MS) -> PackObjects:
    """Objects to pack: instances, or their parts.

    Args:
        split: whether data is split in `PARTS` parts.
        target_ms: latency that each must meet, milliseconds.
    """
    parts = PARTS if split else 1
    owner = np.repeat(np.arange(len(world.kind)), parts)
    share = np.array([published_limit(target_ms, most) for most in world.most])[owner]
    rated = np.array([NODE_TYPES[kind][2] for kind in range(3)])
    rated = rated * world.nodes.rated[0] / NODE_TYPES[2][2]
    capacity = np.array([NODE_TYPES[kind][1] for kind in range(3)])
    peak = world.history.max(axis=0)
    return PackObjects(
        names=tuple(f"{number}" for number in range(len(owner))),
        bandwidth=peak[owner] / parts,
        size=world.size[owner] / parts,
        bandwidth_limit=share[:, None] * rated,
        size_limit=np.tile(capacity, (len(owner), 1)),
        app=owner,
        load=np.full(len(owner), 1.0 / parts),
        datum=np.arange(len(owner)),
    )


def quality(world: StorageWorld, objects: PackObjects, place: Ints, copied: Floats) -> Floats:
    """(t, 40) requests served over those asked for, of each instance where its parts lie.

    A disk serves no more than its own most use; a client waits for its answer before it goes on.

    Args:
        place: (144, n) node of each object in each step.
        copied: (144, m) share of each node's bandwidth that copies take.
    """
    part = np.bincount(objects.app)[objects.app]
    steps, count = world.demand.shape
    served = np.zeros((steps, count))
    for step in range(steps):
        load = world.demand[step][objects.app] / part
        at = place[step]
        use = np.bincount(at, weights=load, minlength=len(world.nodes)) / world.nodes.rated + copied[step]
        room = world.most[objects.app]
        busy = use[at] / room
        each = 1.5 / np.maximum(1.0 - busy, 0.03)
        got = np.minimum(1.0, 1.0 / np.maximum(busy, 1e-9))
        latency = np.bincount(objects.app, weights=each / part, minlength=count)
        share = np.bincount(objects.app, weights=got / part, minlength=count)
        served[step] = share * (THINK_MS + 1.5) / (THINK_MS + latency)
    return served
