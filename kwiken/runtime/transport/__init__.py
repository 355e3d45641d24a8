"""Transports: calls to replicas over HTTP or within one process, and the wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.transport.base import MAX_PRIORITY, Call, Replica, Reply, Stream, Transport
    from kwiken.runtime.transport.call_bodies import (
        CallBodies,
        LoadReport,
        check_sent_size,
        checked_load,
        failure_of_handler,
        is_replicas,
        strange_answer,
    )
    from kwiken.runtime.transport.handler_errors import (
        is_own,
        kind_and_message,
        log_handler_error,
        setup_failed,
    )
    from kwiken.runtime.transport.http import HttpTransport
    from kwiken.runtime.transport.http_head import BadHeadError, read_length, split_head
    from kwiken.runtime.transport.http_pool import (
        BrokenReplyError,
        Connection,
        HttpReply,
        Moments,
        NoConnectionError,
        Pool,
        UnreadReplyError,
    )
    from kwiken.runtime.transport.local import LocalTransport, local_replicas
    from kwiken.runtime.transport.wire import MAX_BODY

__all__ = [
    "MAX_BODY",
    "MAX_PRIORITY",
    "BadHeadError",
    "BrokenReplyError",
    "Call",
    "CallBodies",
    "Connection",
    "HttpReply",
    "HttpTransport",
    "LoadReport",
    "LocalTransport",
    "Moments",
    "NoConnectionError",
    "Pool",
    "Replica",
    "Reply",
    "Stream",
    "Transport",
    "UnreadReplyError",
    "check_sent_size",
    "checked_load",
    "failure_of_handler",
    "is_own",
    "is_replicas",
    "kind_and_message",
    "local_replicas",
    "log_handler_error",
    "read_length",
    "setup_failed",
    "split_head",
    "strange_answer",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.transport.base": (
            "Call",
            "MAX_PRIORITY",
            "Replica",
            "Reply",
            "Stream",
            "Transport",
        ),
        "kwiken.runtime.transport.call_bodies": (
            "CallBodies",
            "LoadReport",
            "check_sent_size",
            "checked_load",
            "failure_of_handler",
            "is_replicas",
            "strange_answer",
        ),
        "kwiken.runtime.transport.handler_errors": (
            "is_own",
            "kind_and_message",
            "log_handler_error",
            "setup_failed",
        ),
        "kwiken.runtime.transport.http": ("HttpTransport",),
        "kwiken.runtime.transport.http_head": (
            "BadHeadError",
            "read_length",
            "split_head",
        ),
        "kwiken.runtime.transport.http_pool": (
            "BrokenReplyError",
            "Connection",
            "HttpReply",
            "Moments",
            "NoConnectionError",
            "Pool",
            "UnreadReplyError",
        ),
        "kwiken.runtime.transport.local": (
            "LocalTransport",
            "local_replicas",
        ),
        "kwiken.runtime.transport.wire": ("MAX_BODY",),
    },
)
