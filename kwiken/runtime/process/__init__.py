"""Server processes: specification, start, signals, span export, and orderly end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.process.critical_tasks import CriticalTasks as CriticalTasks
    from kwiken.runtime.process.log_file import LogFile as LogFile
    from kwiken.runtime.process.log_format import LogFormat as LogFormat
    from kwiken.runtime.process.log_limits import set_up_logs as set_up_logs
    from kwiken.runtime.process.server_process import run_server as run_server
    from kwiken.runtime.process.specs import (
        GatewaySpec as GatewaySpec,
        ReplicaSpec as ReplicaSpec,
        Report as Report,
        TraceMode as TraceMode,
    )

__getattr__ = lazy_names(__name__, __file__)
