"""Options of `kwiken up` that place replicas on nodes, and what the files behind them say of one service."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kwiken.cli.shared import MIB, note, read_text
from kwiken.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwiken.placement import Cluster, Placement
    from kwiken.runtime.cluster import PlayedNode, ReplicaPlace
    from kwiken.service import Service

F = TypeVar("F", bound=Callable[..., Any])
MAX_PLACEMENT: Final = 256 * MIB
MAX_NODES_FILE: Final = 64 * MIB


@dataclass(frozen=True)
class PlacementOptions:
    """Values of the options.

    Attributes:
        placement: path of the placement; None for none.
        nodes: path of the document of nodes; None for none.
    """

    placement: str | None
    nodes: str | None

    def arguments(self) -> list[str]:
        """Command-line words of these options."""
        options = {"--placement": self.placement, "--nodes": self.nodes}
        return [word for name, value in options.items() if value is not None for word in (name, value)]

    def read(self, service: Service) -> Placed | None:
        """Read what the files say of a service; None without a placement.

        Raises:
            InputError: options or files do not fit each other or the service; names option or file.
        """
        if self.placement is None:
            if self.nodes is not None:
                raise InputError("needs --placement", where="--nodes")
            return None
        return read_placed(self.placement, self.nodes, service)


def placement_options(main: F) -> F:
    """Add the options to a verb, which gets them as `placing`."""

    @click.option(
        "--placement",
        metavar="FILE",
        help="Placement to follow, from kwiken place: this machine plays its nodes.",
    )
    @click.option("--nodes", metavar="FILE", help="Nodes of the placement, for the speed of their classes.")
    @functools.wraps(main)
    def placed(*args: Any, placement: str | None, nodes: str | None, **values: Any) -> Any:
        return main(*args, placing=PlacementOptions(placement, nodes), **values)

    return cast("F", placed)


@dataclass(frozen=True)
class Placed:
    """What a placement says of one service.

    Attributes:
        nodes: nodes by name, those without replicas too.
        replicas: places by stage.
    """

    nodes: Mapping[str, PlayedNode]
    replicas: Mapping[str, list[ReplicaPlace]]


def read_placed(placement_file: str, nodes_file: str | None, service: Service) -> Placed:
    """Read a placement for a service, and the speeds of its nodes.

    Args:
        placement_file: path of the placement.
        nodes_file: path of the document of nodes; None for nodes as fast as this machine.
        service: service whose stages are placed.

    Raises:
        InputError: the files do not fit each other or the service; names the file and the field.
    """
    from kwiken.placement import Placement, nodes_from_toml

    placement = Placement.from_json(read_text(placement_file, MAX_PLACEMENT), where=placement_file)
    replicas = _replicas(placement, service, placement_file)
    cluster = None
    if nodes_file is not None:
        cluster = nodes_from_toml(read_text(nodes_file, MAX_NODES_FILE), where=nodes_file)
    else:
        note("note: without --nodes every node is as fast as this machine")
    return Placed(_nodes(placement, cluster, placement_file, nodes_file), replicas)


def _replicas(placement: Placement, service: Service, where: str) -> dict[str, list[ReplicaPlace]]:
    from kwiken.runtime.cluster import ReplicaPlace

    ours = [(number, one) for number, one in enumerate(placement.workloads) if one.service == service.name]
    if not ours:
        known = sorted({one.service for one in placement.workloads if one.service})
        raise InputError(
            f"no workload is a stage of service {service.name!r}; it has workloads of "
            f"{', '.join(known) or 'no service'}",
            where=where,
        )
    replicas: dict[str, list[ReplicaPlace]] = {}
    for number, one in ours:
        if one.stage not in service.stages:
            raise InputError(
                f"workloads[{number}].stage: service {service.name!r} has no stage {one.stage!r}; it has "
                f"{', '.join(service.stages)}",
                where=where,
            )
        replicas.setdefault(one.stage, []).extend(
            ReplicaPlace(found.node, found.cores + found.reissue_cores + found.catch_up_cores)
            for found in one.replicas
        )
    for stage, places in replicas.items():
        if not places:
            raise InputError(
                f"stage {stage!r} has no replica, since its workload waits; place it on more nodes",
                where=where,
            )
    if missing := [stage for stage in service.stages if stage not in replicas]:
        note(f"note: not in the placement, and so on no node and without limits: {', '.join(missing)}")
    return replicas


def _nodes(
    placement: Placement, cluster: Cluster | None, placement_file: str, nodes_file: str | None
) -> dict[str, PlayedNode]:
    from kwiken.runtime.cluster import PlayedNode

    speeds = played_speeds(cluster, nodes_file) if cluster is not None else {}
    for place, node in enumerate(placement.nodes):
        if cluster is not None and node.name not in cluster.index_of:
            raise InputError(
                f"nodes[{place}].name: {node.name!r} is not in {nodes_file}", where=placement_file
            )
    return {
        node.name: PlayedNode(
            node_class=node.node_class, cores=node.cores, speed=speeds.get(node.node_class, 1.0)
        )
        for node in placement.nodes
    }


def played_speeds(cluster: Cluster, nodes_file: str | None) -> dict[str, float]:
    """Speed of each class as a share of the fastest one's, which is as fast as this machine.

    Args:
        cluster: nodes and classes.
        nodes_file: path of their document, for errors.

    Raises:
        InputError: a class has a speed and another one has none.
    """
    known = {one.name: one.speed for one in cluster.classes if one.speed is not None}
    for place, one in enumerate(cluster.classes):
        if known and one.speed is None:
            raise InputError(
                f"classes[{place}].speed: is missing; give every class one, so that this machine can play it",
                where=nodes_file,
            )
    fastest = max(known.values(), default=1.0)
    return {one.name: known.get(one.name, fastest) / fastest for one in cluster.classes}
