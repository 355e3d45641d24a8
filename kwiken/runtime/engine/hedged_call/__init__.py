"""Hedged call of a stage: its attempts, the budget that pays for copies, and its context."""

from __future__ import annotations

from kwiken.runtime.engine.hedged_call.call import call_stage
from kwiken.runtime.engine.hedged_call.context import Attempt, Request, Shared, StageVisit, describe

__all__ = ["Attempt", "Request", "Shared", "StageVisit", "call_stage", "describe"]
