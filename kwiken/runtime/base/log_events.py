"""Events that server processes log, by names that stay.

A line of the log belongs to one event. Lines of libraries, and of a service's own code, have none.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, Final, Self

EVENT: Final = "kw_event"  # attributes of a log record
TRACE: Final = "kw_trace"


class Event(StrEnum):
    """Name of an event in the log, with `meaning`: what a reader is to make of the line."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a member of its name and meaning."""
        event = str.__new__(cls, name)
        event._value_ = name
        event.meaning = meaning
        return event

    REPLICA_OUT = "replica_out", "A replica gets no ordinary calls for now: gone, hung, or failing."
    REPLICA_BACK = "replica_back", "That replica answered again."
    REPLICA_GONE = "replica_gone", "A replica was stopped, or its name has another address."
    STAGE_OUT = "stage_out", "No replica of a stage answers: requests get 503."
    STAGE_BACK = "stage_back", "A replica of that stage answers again."
    NAME_NOT_FOUND = "name_not_found", "The host name of `--replica` never could be looked up."
    FOREIGN_SILENT = "foreign_silent", "An external service cannot be asked for its types yet."
    REQUEST_TURNED_AWAY = "request_turned_away", "A request got 503: overload, or no replicas."
    REQUEST_ERROR = "request_error", "A request failed by an error of kwiken's own."
    HANDLER_FAILED = "handler_failed", "A handler raised; the traceback follows."
    UTILITY_FAILED = "utility_failed", "A stage's `utility` or `worth` raised."
    NOT_HTTP = "not_http", "A client sent something else than HTTP."
    NOT_TLS = "not_tls", "A client of a TLS port spoke no TLS or had no good certificate."
    CONNECTIONS_FULL = "connections_full", "No more connections: out of files or memory."
    GRPC_SERVING = "grpc_serving", "Requests over gRPC are taken at this address."
    CERTIFICATE_READ = "certificate_read", "New connections use the changed certificates."
    CERTIFICATE_EXPIRES = "certificate_expires", "The certificate in force expires soon, or has expired."
    CERTIFICATE_REFUSED = "certificate_refused", "Changed certificates cannot be used; the old stay."
    TOKEN_READ = "token_read", "The control routes take the changed tokens."
    TOKEN_REFUSED = "token_refused", "The changed token file cannot be used."
    PLAN_READ = "plan_read", "The followed file has another plan, now in force."
    PLAN_REFUSED = "plan_refused", "A file has no plan that fits; the former plan stays."
    PLAN_NOT_SAVED = "plan_not_saved", "The plan in force cannot be saved for later gateways."
    SAVED_PLAN_UNREADABLE = "saved_plan_unreadable", "The gateway starts without the saved plan."
    PROCESS_ENDED = "process_ended", "A process ended and is started again."
    PROCESS_NOT_STARTED = "process_not_started", "A process does not start; with the next try."
    PROCESS_UNRESPONSIVE = "process_unresponsive", "A process hung and is killed."
    PROCESS_FAILED = "process_failed", "A server ended by an error; with its traceback."
    SERVING = "serving", "A gateway or a replica takes requests at this address."
    ANSWER_UNFIT = "answer_unfit", "An answer or an input does not have the type that its stage says."
    CLUSTER_UP = "cluster_up", "`kwiken up` serves requests."
    CLUSTER_STOPPING = "cluster_stopping", "`kwiken up` ends its processes."
    CLUSTER_CROWDED = "cluster_crowded", "Fewer processors than processes: latencies suffer."
    GATEWAY_EXPOSED = "gateway_exposed", "The gateway listens where other machines reach it."
    NODES_PLAYED = "nodes_played", "This machine plays the nodes of a placement."
    UPKEEP_ACTED = "upkeep_acted", "The upkeep changed replicas, or found no room."
    UPKEEP_FAILED = "upkeep_failed", "A step of the upkeep failed; the services run on."
    AUTOPILOT_FAILED = "autopilot_failed", "A step of the autopilot failed; the plan stays."
    AUTOPILOT_ENDED = "autopilot_ended", "The autopilot ended and is started again."
    AUTOPILOT_RECORD_UNREADABLE = "autopilot_record_unreadable", "The autopilot begins anew."
    JOB = "job", "A batch job started, changed its line, ended, or was refused."
    GATEWAY_NOT_TOLD = "gateway_not_told", "A gateway misses an update, which is tried again."
    STATE_NOT_SAVED = "state_not_saved", "`down` and `status` may not see the cluster as it is."
    TRACES_INCOMPLETE = "traces_incomplete", "Spans were lost; again at ten times as many."
    RECORD_NOT_CONVERTED = "record_not_converted", "Spans of one request could not be made."
    OBSERVER_FAILED = "observer_failed", "An observer of finished requests raised."
    TASK_FAILED = "task_failed", "A task that the process needs failed; the process ends."
    LOOP_ERROR = "loop_error", "A callback of the event loop raised."


def about(event: Event, *, trace_id: int = 0) -> dict[str, Any]:
    """Value of `extra` for a call of a logger.

    Args:
        trace_id: trace of the request that the line is about; 0 for none.
    """
    return {EVENT: event.value, TRACE: f"{trace_id:032x}" if trace_id else None}


def log_event(log: logging.Logger, event: Event, line: str, level: int = logging.INFO) -> None:
    """Log an event as one line."""
    log.log(level, "%s", line, extra=about(event))
