"""Scene of the demonstration: nodes, services and targets, as documents that `kwiken` verbs read. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.model.nodes.nodes import Cluster
from kwiken.runtime.cluster.layout import EmulatedNode

SERVICES: Final = {"digest": "hashing", "pack": "packing", "order": "ordering"}  # with their stages
MODULE: Final = "services.trio"
BATCH: Final = "batch"  # best-effort work: the program of `pack` without requests
BATCH_PROGRAM: Final = "pack"
MACHINE: Final = "machine.json"  # calibration of this machine
# Sources of contention beside which stages are measured: those that tell most, by the recorded history.
PRESSED: Final = ("memory-bandwidth", "disk")
BATCH_COMMAND: Final = (
    sys.executable,
    "-S",
    "-c",
    "import zlib\nwhile True: zlib.compress(b'A replica more, a faster node? ' * 40, 6)",
)
# Classes as the recorded history of `kwiken probe` names them: cores of a node, speed, cost in an hour.
CLASSES: Final = {"speed-1": (0.5, 1.0, 1.0), "speed-0.5": (0.5, 0.5, 0.4)}
# The nodes in an order that tells nothing about speed, as in a rack. The services take two each and best-
# effort work one. With the eighth there is room for the grown load, also once any one node is lost.
NODES: Final = tuple(f"speed-{speed:g}" for speed in (0.5, 1, 1, 0.5, 1, 0.5, 1, 0.5))
NODE_GB: Final = 8.0
REPLICA_GB: Final = 0.2
SMALL_CORES: Final = 0.25  # the smallest replica
CALL_MS: Final = 8.0  # processor time of a call of middle size on this machine
MIX: Final = (0.6, 1.0, 1.4)  # rounds of calls, as factors of the middle one; in equal parts
REQUESTS: Final = 48  # lines of a file of requests
# Target by service: p99 to keep, as a multiple of the time of a call on the smallest replica, and rate to
# keep, as a share of what one smallest replica serves while it is never idle. A shorter latency has a lower
# rate. With the idle part for the latency and the headroom of predictions, each service needs almost what
# two smallest replicas serve on quick nodes. Replicas come in steps of half of one, so that at a higher
# rate a service would get a quarter more, and use less of its latency.
TARGETS: Final = {"digest": (4.25, 0.95), "pack": (4.0, 0.88), "order": (3.75, 0.8)}
GROWING: Final = "digest"  # service whose load doubles
GROWTH: Final = 2.0


@dataclass(frozen=True)
class ServiceLoad:
    """Target of a service: a latency at a rate.

    Attributes:
        p99_ms: largest p99 latency, milliseconds.
        rate_per_s: rate at which the latency is to hold, requests per second.
    """

    p99_ms: float
    rate_per_s: float


def requests_text(rounds: int) -> str:
    """Requests of a service, one JSON body a line.

    Args:
        rounds: rounds of work of a request of middle size, 1 or more.
    """
    sizes = [max(1, round(rounds * MIX[place % len(MIX)])) for place in range(REQUESTS)]
    return "".join(json.dumps({"rounds": size}) + "\n" for size in sizes)


def nodes_toml() -> str:
    """The nodes, as `kwiken place` reads them."""
    classes = [
        f'[[classes]]\nname = "{name}"\ncores = {cores}\nmemory_gb = {NODE_GB}\nspeed = {speed}\n'
        f"cost_per_hour = {cost}\n"
        for name, (cores, speed, cost) in CLASSES.items()
    ]
    nodes = [f'[[nodes]]\nname = "node-{place}"\nclass = "{kind}"\n' for place, kind in enumerate(NODES, 1)]
    return "\n".join([*classes, *nodes])


def emulated(cluster: Cluster) -> dict[str, EmulatedNode]:
    """The nodes as this machine emulates them, by name.

    Args:
        cluster: nodes as read from `nodes_toml`.
    """
    return {
        node.name: EmulatedNode(
            node_class=node.node_class, cores=CLASSES[node.node_class][0], speed=CLASSES[node.node_class][1]
        )
        for node in cluster.nodes
    }


def with_batch(profiles: Sequence[WorkloadProfile]) -> tuple[WorkloadProfile, ...]:
    """Profiles of the services, and of the best-effort work, which is the program of a service.

    Args:
        profiles: predictions of `kwiken classify`, of all services.
    """
    (program,) = (one for one in profiles if one.name == BATCH_PROGRAM)
    return (*profiles, replace(program, name=BATCH))


def loads(profiles: Sequence[WorkloadProfile]) -> dict[str, ServiceLoad]:
    """Targets of the services, which follow what the smallest replica serves on a quick node of this machine.

    Args:
        profiles: predictions of `kwiken classify`, of all services.
    """
    found = {}
    for profile in profiles:
        if profile.name in SERVICES:
            place = [size.cores for size in profile.sizes].index(SMALL_CORES)
            served_per_s = profile.base * float(np.exp(profile.up.mean[place]))
            calls, load = TARGETS[profile.name]
            found[profile.name] = ServiceLoad(
                p99_ms=round(1e3 * calls / served_per_s, 1), rate_per_s=round(load * served_per_s, 2)
            )
    return {name: found[name] for name in SERVICES}


def workloads_toml(targets: Mapping[str, ServiceLoad]) -> str:
    """The workloads, as `kwiken place` reads them."""
    tables = [
        f'[[workloads]]\nname = "{name}"\nmemory_gb = {REPLICA_GB}\nservice = "{name}"\n'
        f'stage = "{SERVICES[name]}"\nspread = "node"\nmin_nodes = 2\n'
        f"target = {{ p99_ms = {one.p99_ms}, rate_per_s = {one.rate_per_s} }}\n"
        for name, one in targets.items()
    ]
    tables.append(
        f'[[workloads]]\nname = "{BATCH}"\nmemory_gb = {REPLICA_GB}\nbest_effort = true\nmax_replicas = 1\n'
        f"command = {json.dumps(list(BATCH_COMMAND))}\n"
    )
    return "\n".join(tables)
