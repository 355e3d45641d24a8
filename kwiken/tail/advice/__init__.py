"""Advice for the owner of a slow service: cause of its tail, gain of a budget, settings to change."""

from __future__ import annotations

from kwiken.tail.advice.composition import advise as advise
from kwiken.tail.advice.contents import (
    Advice as Advice,
    ConfirmReads as ConfirmReads,
    ConfirmWrites as ConfirmWrites,
    Doubt as Doubt,
    HedgedAlready as HedgedAlready,
    NextStep as NextStep,
    OutOfReach as OutOfReach,
    RecordAgain as RecordAgain,
    RecordBusyTime as RecordBusyTime,
    RecordLonger as RecordLonger,
    RequestKind as RequestKind,
    SharedCall as SharedCall,
    TraceRareKinds as TraceRareKinds,
)
