"""Pure decisions of the runtime: state machines without clock, sockets or global randomness.

Names load on first use: a replica needs the histogram alone, and neither plans nor races.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.decisions.admission import Admission
    from kwiken.runtime.decisions.common_delay import CommonDelay
    from kwiken.runtime.decisions.compiled_stage import CompiledStage
    from kwiken.runtime.decisions.latency_histogram import (
        FIRST_INDEX,
        SCALE,
        LatencyHistogram,
        RecentLatencies,
        TracedLatency,
    )
    from kwiken.runtime.decisions.ledger import Hold, Ledger, RequestBudget, RetryAccount
    from kwiken.runtime.decisions.program import Limits, Program, compile_program, retune
    from kwiken.runtime.decisions.race import COPY, FINAL, FINISH, LATE, LOST, REFUSED, RESEND, RETRY, Race
    from kwiken.runtime.decisions.replica_choice import ReplicaState
    from kwiken.runtime.decisions.stage_state import (
        ATTEMPT_KINDS,
        ATTEMPT_OUTCOMES,
        RECENT_STEPS,
        StageState,
    )
    from kwiken.runtime.decisions.stop_rule import STOP, WAIT, FanOut
    from kwiken.runtime.decisions.trace_sampling import DRAWN_SHARE, KeepReason, RequestSampling, TraceSampler

__all__ = [
    "ATTEMPT_KINDS",
    "ATTEMPT_OUTCOMES",
    "COPY",
    "DRAWN_SHARE",
    "FINAL",
    "FINISH",
    "FIRST_INDEX",
    "LATE",
    "LOST",
    "RECENT_STEPS",
    "REFUSED",
    "RESEND",
    "RETRY",
    "SCALE",
    "STOP",
    "WAIT",
    "Admission",
    "CommonDelay",
    "CompiledStage",
    "FanOut",
    "Hold",
    "KeepReason",
    "LatencyHistogram",
    "Ledger",
    "Limits",
    "Program",
    "Race",
    "RecentLatencies",
    "ReplicaState",
    "RequestBudget",
    "RequestSampling",
    "RetryAccount",
    "StageState",
    "TraceSampler",
    "TracedLatency",
    "compile_program",
    "retune",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.decisions.admission": ("Admission",),
        "kwiken.runtime.decisions.common_delay": ("CommonDelay",),
        "kwiken.runtime.decisions.compiled_stage": ("CompiledStage",),
        "kwiken.runtime.decisions.latency_histogram": (
            "FIRST_INDEX",
            "SCALE",
            "LatencyHistogram",
            "RecentLatencies",
            "TracedLatency",
        ),
        "kwiken.runtime.decisions.ledger": (
            "Hold",
            "Ledger",
            "RequestBudget",
            "RetryAccount",
        ),
        "kwiken.runtime.decisions.program": (
            "Limits",
            "Program",
            "compile_program",
            "retune",
        ),
        "kwiken.runtime.decisions.race": (
            "COPY",
            "FINAL",
            "FINISH",
            "LATE",
            "LOST",
            "REFUSED",
            "RESEND",
            "RETRY",
            "Race",
        ),
        "kwiken.runtime.decisions.replica_choice": ("ReplicaState",),
        "kwiken.runtime.decisions.stage_state": (
            "ATTEMPT_KINDS",
            "ATTEMPT_OUTCOMES",
            "RECENT_STEPS",
            "StageState",
        ),
        "kwiken.runtime.decisions.stop_rule": (
            "STOP",
            "WAIT",
            "FanOut",
        ),
        "kwiken.runtime.decisions.trace_sampling": (
            "DRAWN_SHARE",
            "KeepReason",
            "RequestSampling",
            "TraceSampler",
        ),
    },
)
