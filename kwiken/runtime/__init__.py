"""Runtime: executes a service's DAG with reissues, budgets, replica choice and transports.

Names that need sockets or processes load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.base.clock import Clock as Clock, SystemClock as SystemClock
    from kwiken.runtime.base.errors import (
        AllFailedError as AllFailedError,
        DeadlineError as DeadlineError,
        HandlerError as HandlerError,
        LostError as LostError,
        OverloadError as OverloadError,
        RefusedError as RefusedError,
        UnavailableError as UnavailableError,
    )
    from kwiken.runtime.cluster.cluster import Cluster as Cluster
    from kwiken.runtime.cluster.settings import ClusterSettings as ClusterSettings
    from kwiken.runtime.decisions.admission import Limits as Limits
    from kwiken.runtime.engine.executor import Answer as Answer, Executor as Executor
    from kwiken.runtime.gateway.server import Gateway as Gateway
    from kwiken.runtime.gateway.settings import GatewaySettings as GatewaySettings
    from kwiken.runtime.replica.server import ReplicaServer as ReplicaServer
    from kwiken.runtime.wire.foreign.transport import ForeignTransport as ForeignTransport
    from kwiken.runtime.wire.frames.transport import FrameTransport as FrameTransport
    from kwiken.runtime.wire.transport.base import (
        Call as Call,
        Replica as Replica,
        Reply as Reply,
        Transport as Transport,
    )
    from kwiken.runtime.wire.transport.local import (
        LocalTransport as LocalTransport,
        local_replicas as local_replicas,
    )

__getattr__ = lazy_names(__name__, __file__)
