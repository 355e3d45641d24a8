"""Document of a running cluster's state, for `kwiken down` and `kwiken status`."""

from __future__ import annotations

from typing import Final

import msgspec

from kwiken.runtime.base.process_id import Identity

STATE_VERSION: Final = 2


class ProcessState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of one server process of the cluster.

    Attributes:
        restarts: number of restarts, 0 or more.
        stage: stage of a replica; None for the gateway.
        replica: name of a replica; None for the gateway.
        node: name of the node that a replica stands on; None without nodes.
        cores: number of the node's cores that it may use; None without nodes.
    """

    identity: Identity
    url: str
    restarts: int
    stage: str | None = None
    replica: str | None = None
    node: str | None = None
    cores: float | None = None


class NodeState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of a node that this machine emulates.

    Attributes:
        cores: number of its cores.
        speed: speed of a core as a share of this machine's.
    """

    node: str
    node_class: str
    cores: float
    speed: float


class RestartState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Last restart of all processes that was asked for.

    Attributes:
        number: number of restarts so far, 0 or more.
        error: why it ended early; empty if it did not.
    """

    number: int = 0
    running: bool = False
    error: str = ""


class ClusterState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of a cluster, as `down` and `status` need it.

    Attributes:
        target: service as it was given to `kwiken up`.
        token_file: path of the token of the control routes.
        url: URL for requests from this machine.
        gateways: processes of the gateways that are running.
        nodes: nodes that this machine emulates; empty for none.
        actions: last actions that kept targets, each as one line; newest last.
        restart: last restart of all processes.
    """

    version: int
    service: str
    target: str
    supervisor: Identity
    ready: bool
    token_file: str
    url: str
    gateways: list[ProcessState]
    replicas: list[ProcessState]
    nodes: list[NodeState] = []
    actions: list[str] = []
    restart: RestartState = RestartState()

    def __post_init__(self) -> None:
        """Refuse other versions of the format."""
        if self.version != STATE_VERSION:
            raise ValueError(f"version must be {STATE_VERSION}, not {self.version}")

    @property
    def children(self) -> list[ProcessState]:
        """Gateways and replicas."""
        return [*self.gateways, *self.replicas]
