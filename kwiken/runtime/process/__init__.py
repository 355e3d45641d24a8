"""Server processes: specification, start, signals, span export, and orderly end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.process.critical_tasks import CriticalTasks
    from kwiken.runtime.process.log_file import LogFile
    from kwiken.runtime.process.log_format import LogFormat
    from kwiken.runtime.process.log_limits import set_up_logs
    from kwiken.runtime.process.server_process import run_server
    from kwiken.runtime.process.specs import GatewaySpec, ReplicaSpec, Report, TraceMode

__all__ = [
    "CriticalTasks",
    "GatewaySpec",
    "LogFile",
    "LogFormat",
    "ReplicaSpec",
    "Report",
    "TraceMode",
    "run_server",
    "set_up_logs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.process.critical_tasks": ("CriticalTasks",),
        "kwiken.runtime.process.log_file": ("LogFile",),
        "kwiken.runtime.process.log_format": ("LogFormat",),
        "kwiken.runtime.process.log_limits": ("set_up_logs",),
        "kwiken.runtime.process.server_process": ("run_server",),
        "kwiken.runtime.process.specs": ("GatewaySpec", "ReplicaSpec", "Report", "TraceMode"),
    },
)
