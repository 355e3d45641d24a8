"""Transports: calls to replicas over HTTP or within one process, and the wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.wire.transport.base import (
        MAX_PRIORITY as MAX_PRIORITY,
        Call as Call,
        Replica as Replica,
        Reply as Reply,
        Stream as Stream,
        Transport as Transport,
    )
    from kwiken.runtime.wire.transport.call_bodies import (
        CallBodies as CallBodies,
        ReplicaLoad as ReplicaLoad,
        check_sent_size as check_sent_size,
        checked_load as checked_load,
        failure_of_handler as failure_of_handler,
        is_replicas as is_replicas,
        strange_answer as strange_answer,
    )
    from kwiken.runtime.wire.transport.handler_errors import (
        is_own as is_own,
        kind_and_message as kind_and_message,
        log_handler_error as log_handler_error,
        setup_failed as setup_failed,
    )
    from kwiken.runtime.wire.transport.http import HttpTransport as HttpTransport
    from kwiken.runtime.wire.transport.http_head import (
        BadHeadError as BadHeadError,
        read_length as read_length,
        split_head as split_head,
    )
    from kwiken.runtime.wire.transport.http_pool import (
        BrokenReplyError as BrokenReplyError,
        Connection as Connection,
        HttpReply as HttpReply,
        Moments as Moments,
        NoConnectionError as NoConnectionError,
        Pool as Pool,
        UnreadReplyError as UnreadReplyError,
    )
    from kwiken.runtime.wire.transport.local import (
        LocalTransport as LocalTransport,
        local_replicas as local_replicas,
    )
    from kwiken.runtime.wire.transport.wire import MAX_BODY as MAX_BODY

__getattr__ = lazy_names(__name__, __file__)
