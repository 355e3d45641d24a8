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
    from kwiken.runtime.cluster import Cluster as Cluster, ClusterSettings as ClusterSettings
    from kwiken.runtime.decisions import Limits as Limits
    from kwiken.runtime.engine import Answer as Answer, Executor as Executor
    from kwiken.runtime.gateway import Gateway as Gateway, GatewaySettings as GatewaySettings
    from kwiken.runtime.replica import (
        GrpcReplicaServer as GrpcReplicaServer,
        ReplicaServer as ReplicaServer,
    )
    from kwiken.runtime.wire.foreign import ForeignTransport as ForeignTransport
    from kwiken.runtime.wire.grpc import (
        GrpcTransport as GrpcTransport,
        RemoteTransport as RemoteTransport,
    )
    from kwiken.runtime.wire.transport import (
        Call as Call,
        HttpTransport as HttpTransport,
        LocalTransport as LocalTransport,
        Replica as Replica,
        Reply as Reply,
        Transport as Transport,
        local_replicas as local_replicas,
    )

__getattr__ = lazy_names(__name__, __file__)
