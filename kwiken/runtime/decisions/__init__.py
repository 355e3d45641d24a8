"""Pure decisions of the runtime: state machines without clock, sockets or global randomness.

Names load on first use: a replica needs the histogram alone, and neither plans nor races.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.decisions.admission import Admission as Admission, Limits as Limits
    from kwiken.runtime.decisions.budget_ledger import (
        Hold as Hold,
        Ledger as Ledger,
        RequestBudget as RequestBudget,
        RetryAccount as RetryAccount,
    )
    from kwiken.runtime.decisions.choice import ReplicaState as ReplicaState
    from kwiken.runtime.decisions.compiled_stage import (
        CompiledStage as CompiledStage,
        ReissueRule as ReissueRule,
    )
    from kwiken.runtime.decisions.delays import CommonDelay as CommonDelay
    from kwiken.runtime.decisions.latency_histogram import (
        FIRST_INDEX as FIRST_INDEX,
        SCALE as SCALE,
        LatencyHistogram as LatencyHistogram,
        RecentLatencies as RecentLatencies,
        TracedLatency as TracedLatency,
    )
    from kwiken.runtime.decisions.lines import (
        KindLine as KindLine,
        RequestLines as RequestLines,
        Ticket as Ticket,
    )
    from kwiken.runtime.decisions.program import (
        Program as Program,
        arm_accounts as arm_accounts,
        compile_program as compile_program,
        retune as retune,
    )
    from kwiken.runtime.decisions.race import (
        COPY as COPY,
        FINAL as FINAL,
        FINISH as FINISH,
        LATE as LATE,
        LOST as LOST,
        REFUSED as REFUSED,
        RESEND as RESEND,
        RETRY as RETRY,
        Race as Race,
    )
    from kwiken.runtime.decisions.stage_state import (
        ATTEMPT_KINDS as ATTEMPT_KINDS,
        ATTEMPT_OUTCOMES as ATTEMPT_OUTCOMES,
        RECENT_STEPS as RECENT_STEPS,
        StageState as StageState,
    )
    from kwiken.runtime.decisions.stop_rule import STOP as STOP, WAIT as WAIT, FanOut as FanOut
    from kwiken.runtime.decisions.trace_sampling import (
        DRAWN_SHARE as DRAWN_SHARE,
        KeepReason as KeepReason,
        RequestSampling as RequestSampling,
        TraceSampler as TraceSampler,
    )

__getattr__ = lazy_names(__name__, __file__)
