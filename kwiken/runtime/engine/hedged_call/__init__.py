"""Hedged call of a stage: its attempts, the budget that pays for copies, and its context."""

from __future__ import annotations

from kwiken.runtime.engine.hedged_call.call import call_stage as call_stage
from kwiken.runtime.engine.hedged_call.context import (
    Attempt as Attempt,
    Request as Request,
    Shared as Shared,
    StageVisit as StageVisit,
    describe as describe,
)
