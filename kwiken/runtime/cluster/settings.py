"""Settings of a cluster: what its gateways and its replicas are started with."""

from __future__ import annotations

from pathlib import Path

from kwiken.runtime.gateway.settings import GatewayConfig


class ClusterSettings(GatewayConfig, frozen=True, kw_only=True):
    """Settings of the processes of a cluster, at the start and after every restart.

    Address, ports, TLS, lines and the bytes of bodies are those of the gateways; replicas listen on loopback,
    are called without TLS, and show their metrics unless nobody may read any.

    Attributes:
        max_inflight: largest number of calls that a replica holds at once, 1 or more.
        unresponsive_s: seconds without an answer to `/livez` after which a process is killed and restarted, a
            replica not before its stage's timeout has passed too; 0 for never.
        gateways: number of gateways that share the ports, 1 or more; all keep one budget together.
        log: file that the processes' standard error is appended to; None for that of this process.
    """

    max_inflight: int = 64
    unresponsive_s: float = 10.0
    gateways: int = 1
    log: Path | None = None
