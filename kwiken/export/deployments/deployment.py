"""Deployment of one service: its processes with their commands, sizes and nodes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError
from kwiken.export.deployments.certificates import door_words, replica_words, stage_words
from kwiken.export.placements.groups import ReplicaGroup, name_in_kubernetes, replica_groups
from kwiken.model.nodes.placement import Placement
from kwiken.model.service.service import Service

GATEWAY_PORT: Final = 8080
STAGE_PORT: Final = 9000
JAEGER_IMAGE: Final = "jaegertracing/jaeger:2.13.0"
NAME: Final = "app.kubernetes.io/name"  # labels of pods
COMPONENT: Final = "app.kubernetes.io/component"
OTLP_PORT: Final = 4318  # of a Jaeger of its own
# Names of processes that are no stages.
RESERVED: Final = ("gateway", "grafana", "jaeger", "locust", "plan", "prometheus", "upkeep")

GATEWAYS: Final = "gateway-"  # begin of the names of further gateways and of their Services


@dataclass(frozen=True)
class StageReplicas:
    """Replicas of one stage that are of one size.

    Attributes:
        name: name of the group, unique among those of the service.
        stage: name of the stage in the service's definition.
        count: number of replicas, 1 or more.
        placed: size and nodes by a placement; None without one.
    """

    name: str
    stage: str
    count: int
    placed: ReplicaGroup | None = None


@dataclass(frozen=True, kw_only=True)
class Build:
    """Place where an image is built.

    Attributes:
        context: folder with the code, as a path relative to the folder of the Compose file.
        dockerfile: path of the Dockerfile, relative to `context`.
    """

    context: str = "."
    dockerfile: str = "Dockerfile"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Processes that run for one service.

    Attributes:
        target: the service as the command line in the image names it.
        image: name of the image with its tag.
        build: where the image is built; None for an image that exists.
        load_image: name of the image with Locust; None for no Locust beside the service.
        stages: replicas by stage and size, in the service's order.
        gateways: number of gateways, 1 or more.
        otlp: endpoint for spans; None for a Jaeger of its own.
        plan: plan as JSON, to be in force from the start; None for none.
        autoscale: whether Kubernetes scales the stages without an upkeep by their use of processors.
        managed: stages whose scales and nodes an upkeep sets in Kubernetes; empty for no upkeep.
        namespace: namespace of all objects in Kubernetes; None for the one of who applies them.
        jaeger: host name of the Jaeger of its own.
        tls: whether gateways and replicas speak TLS, with certificates from outside of the deployment.
    """

    service: Service
    target: str
    image: str
    build: Build | None
    stages: Sequence[StageReplicas]
    load_image: str | None = None
    gateways: int = 1
    otlp: str | None = None
    plan: str | None = None
    autoscale: bool = False
    managed: Collection[str] = ()
    namespace: str | None = None
    jaeger: str = "jaeger"
    tls: bool = False

    @property
    def name(self) -> str:
        """Name of the service as containers and Kubernetes take it."""
        return name_in_kubernetes(self.service.name)

    @property
    def upkeep(self) -> bool:
        """Whether an upkeep runs beside the service."""
        return bool(self.managed)

    @property
    def traces(self) -> str:
        """Endpoint for spans."""
        return self.otlp if self.otlp is not None else f"http://{self.jaeger}:{OTLP_PORT}"

    def labels(self, component: str) -> dict[str, str]:
        """Labels of the pods of one stage, of the gateways, or of another component."""
        return {NAME: self.name, COMPONENT: component}

    def stage_command(self, stage: str) -> list[str]:
        """Words of the command of one replica, after `kwiken`."""
        return [
            "stage",
            self.target,
            "--host=0.0.0.0",
            f"--port={STAGE_PORT}",
            f"--otlp={self.traces}",
            f"--stage={stage}",
            *(stage_words() if self.tls else ()),
        ]

    def gateway_command(self, hosts: Sequence[tuple[str, str]], *more: str) -> list[str]:
        """Words of the command of a gateway, after `kwiken`.

        Args:
            hosts: stage and host name of each group of replicas.
            more: further options of `kwiken serve`, a word each.
        """
        return [
            "serve",
            self.target,
            "--host=0.0.0.0",
            f"--port={GATEWAY_PORT}",
            f"--otlp={self.traces}",
            *(f"--replica={stage}={host}:{STAGE_PORT}" for stage, host in hosts),
            *(door_words() if self.tls else ()),
            *(replica_words(self.name) if self.tls and hosts else ()),
            *more,
        ]


def replicas_of(service: Service, placement: Placement | None, *, where: str) -> list[StageReplicas]:
    """Replicas of a service by stage and size: those of a placement, and the service's own number elsewhere.

    Args:
        where: name of the placement's file, for messages.

    Raises:
        InputError: a stage has a name that no container can have, two would have the same, or the placement
            has replicas of a stage that the service lacks, or of none of its stages.
    """
    placed = _placed(service, placement, where) if placement is not None else {}
    found: list[StageReplicas] = []
    for name, stage in service.stages.items():
        if stage.remote_call is not None:
            continue
        own = name_in_kubernetes(name)
        if own in RESERVED or own.startswith(GATEWAYS):
            raise InputError(
                f"cannot be the name of a container, of which {', '.join(RESERVED)} and {GATEWAYS}... are "
                "taken; rename it",
                where=f"stage {name!r}",
            )
        groups = placed.get(name, [])
        found += [
            StageReplicas(
                own if len(groups) == 1 else f"{own}-{group.resources['cpu']}", name, len(group.nodes), group
            )
            for group in groups
        ] or [StageReplicas(own, name, stage.replicas)]
    names = [each.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two stages or sizes would be named {twice[0]!r}", where="service")
    return found


def _placed(service: Service, placement: Placement, where: str) -> dict[str, list[ReplicaGroup]]:
    """Groups of a placement's replicas by stage of the service."""
    placed: dict[str, list[ReplicaGroup]] = {}
    for group in replica_groups(placement, where):
        workload = group.workload
        if workload.service != service.name or not workload.stage:
            continue
        if workload.stage not in service.stages:
            raise InputError(
                f"workload {workload.name!r} is of stage {workload.stage!r}, which service {service.name!r} "
                "lacks",
                where=where,
            )
        placed.setdefault(workload.stage, []).append(group)
    if not placed:
        raise InputError(f"no workload is a stage of service {service.name!r}", where=where)
    return placed
