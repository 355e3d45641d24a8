"""Settings of a cluster, and the specifications of its processes."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.runtime.process import GatewaySpec, ReplicaSpec
from kwiken.runtime.transport import Replica

REPLICA_HOST: Final = "127.0.0.1"  # no other machine has business with a replica of a local cluster
MAX_KNOWN: Final = 500  # replicas that fit into a process's arguments


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Settings that all processes of a cluster are started with; see `Cluster` for their meaning."""

    target: str
    host: str
    traces: Path | None
    otlp: str | None
    plan: Path | None
    max_inflight: int
    grace_s: float
    unresponsive_s: float
    max_bodies: int | None
    allowed_hosts: tuple[str, ...]

    def gateway_url(self, port: int) -> str:
        """URL at which this machine reaches the gateway."""
        host = self.host
        try:
            if ipaddress.ip_address(host).is_unspecified:  # every address, loopback among them
                host = "::1" if ":" in host else "127.0.0.1"
        except ValueError:
            pass  # a name
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def gateway(
        self,
        *,
        sockets: Sequence[int],
        port: int,
        kept: Path,
        takes_over: bool,
        known: Mapping[str, list[Replica]],
    ) -> GatewaySpec:
        """Specification of the gateway.

        Args:
            sockets: file descriptors of its listening sockets.
            port: port of these sockets.
            kept: file in which the plan in force is saved.
            takes_over: whether another gateway ran before.
            known: replicas that are running, by stage.
        """
        count = sum(len(replicas) for replicas in known.values())
        return GatewaySpec(
            target=self.target,
            host=self.host,
            port=port,
            plan=_text(self.plan),
            traces=_text(self.traces),
            otlp=self.otlp,
            grace_s=self.grace_s,
            kept=str(kept),
            takes_over=takes_over,
            sockets=list(sockets),
            max_bodies=self.max_bodies,
            allowed_hosts=list(self.allowed_hosts),
            known=dict(known) if count <= MAX_KNOWN else {},
        )

    def replica(self, stage: str, name: str) -> ReplicaSpec:
        """Specification of a replica."""
        return ReplicaSpec(
            target=self.target,
            stage=stage,
            host=REPLICA_HOST,
            replica=name,
            traces=_text(self.traces),
            otlp=self.otlp,
            max_inflight=self.max_inflight,
            grace_s=self.grace_s,
        )


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None
