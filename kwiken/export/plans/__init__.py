"""Plans as settings of gRPC, Envoy and Istio, with notes on what these cannot express."""

from __future__ import annotations

from kwiken.export.plans.calls import (
    ExportedCall as ExportedCall,
    StageAddress as StageAddress,
    call_named as call_named,
    call_of as call_of,
    check_known as check_known,
    read_targets as read_targets,
)
from kwiken.export.plans.programs import PROGRAMS as PROGRAMS, missing_calls as missing_calls
