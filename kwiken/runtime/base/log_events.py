"""Events that server processes log, by names that stay; docs/operate/running.md says what each means.

A line of the log belongs to one event. Lines of libraries, and of a service's own code, have none.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, Final

EVENT: Final = "kw_event"  # attributes of a log record
TRACE: Final = "kw_trace"


class Event(StrEnum):
    """Name of an event in the log."""

    # Replicas, as the gateway sees them.
    REPLICA_OUT = "replica_out"
    REPLICA_BACK = "replica_back"
    REPLICA_GONE = "replica_gone"
    STAGE_OUT = "stage_out"
    STAGE_BACK = "stage_back"
    NAME_NOT_FOUND = "name_not_found"
    FOREIGN_SILENT = "foreign_silent"
    # Requests and calls.
    REQUEST_TURNED_AWAY = "request_turned_away"
    REQUEST_ERROR = "request_error"
    HANDLER_FAILED = "handler_failed"
    UTILITY_FAILED = "utility_failed"
    NOT_HTTP = "not_http"
    NOT_TLS = "not_tls"
    CONNECTIONS_FULL = "connections_full"
    GRPC_SERVING = "grpc_serving"
    # Certificates and tokens.
    CERTIFICATE_READ = "certificate_read"
    CERTIFICATE_REFUSED = "certificate_refused"
    TOKEN_READ = "token_read"  # noqa: S105 - the name of an event
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - the name of an event
    # Plans.
    PLAN_READ = "plan_read"
    PLAN_REFUSED = "plan_refused"
    PLAN_NOT_SAVED = "plan_not_saved"
    SAVED_PLAN_UNREADABLE = "saved_plan_unreadable"
    # Processes of a cluster, as its supervisor sees them.
    PROCESS_ENDED = "process_ended"
    PROCESS_NOT_STARTED = "process_not_started"
    PROCESS_UNRESPONSIVE = "process_unresponsive"
    PROCESS_FAILED = "process_failed"
    CLUSTER_UP = "cluster_up"
    CLUSTER_STOPPING = "cluster_stopping"
    CLUSTER_CROWDED = "cluster_crowded"
    GATEWAY_EXPOSED = "gateway_exposed"
    NODES_PLAYED = "nodes_played"
    UPKEEP_ACTED = "upkeep_acted"
    UPKEEP_FAILED = "upkeep_failed"
    AUTOPILOT_FAILED = "autopilot_failed"
    AUTOPILOT_ENDED = "autopilot_ended"
    AUTOPILOT_RECORD_UNREADABLE = "autopilot_record_unreadable"
    JOB = "job"
    GATEWAY_NOT_TOLD = "gateway_not_told"
    STATE_NOT_SAVED = "state_not_saved"
    # Within a process.
    TRACES_INCOMPLETE = "traces_incomplete"
    RECORD_NOT_CONVERTED = "record_not_converted"
    OBSERVER_FAILED = "observer_failed"
    TASK_FAILED = "task_failed"
    LOOP_ERROR = "loop_error"


def about(event: Event, *, trace_id: int = 0) -> dict[str, Any]:
    """Value of `extra` for a call of a logger.

    Args:
        trace_id: trace of the request that the line is about; 0 for none.
    """
    return {EVENT: event.value, TRACE: f"{trace_id:032x}" if trace_id else None}


def log_event(log: logging.Logger, event: Event, line: str, level: int = logging.INFO) -> None:
    """Log an event as one line."""
    log.log(level, "%s", line, extra=about(event))
