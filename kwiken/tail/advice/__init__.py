"""Advice for the owner of a slow service: cause of its tail, gain of a budget, settings to change."""

from __future__ import annotations

from kwiken.tail.advice.composition import advise as advise
from kwiken.tail.advice.contents import (
    AddReplica as AddReplica,
    Advice as Advice,
    ConfirmReads as ConfirmReads,
    ConfirmReplicas as ConfirmReplicas,
    ConfirmWrites as ConfirmWrites,
    Doubt as Doubt,
    HedgedAlready as HedgedAlready,
    LookIntoReplica as LookIntoReplica,
    NextStep as NextStep,
    OutOfReach as OutOfReach,
    RecordAgain as RecordAgain,
    RecordBusyTime as RecordBusyTime,
    RecordLonger as RecordLonger,
    RequestKind as RequestKind,
    SharedCall as SharedCall,
    TraceRareKinds as TraceRareKinds,
)
from kwiken.tail.advice.worth import Worth as Worth
