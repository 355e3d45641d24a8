"""Advice for the owner of a slow service: cause of its tail, gain of a budget, settings to change."""

from __future__ import annotations

from kwiken.advice.composition import advise
from kwiken.advice.contents import (
    Advice,
    ConfirmReads,
    ConfirmWrites,
    Doubt,
    NextStep,
    OutOfReach,
    RecordAgain,
    RecordBusyTime,
    RecordLonger,
    RequestKind,
    SharedCall,
    TraceRareKinds,
)

__all__ = [
    "Advice",
    "ConfirmReads",
    "ConfirmWrites",
    "Doubt",
    "NextStep",
    "OutOfReach",
    "RecordAgain",
    "RecordBusyTime",
    "RecordLonger",
    "RequestKind",
    "SharedCall",
    "TraceRareKinds",
    "advise",
]
