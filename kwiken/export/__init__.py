"""Plans as settings of gRPC, Envoy and Istio, with notes on what these cannot express."""

from __future__ import annotations

from kwiken.export.calls import Target, check_known, read_targets
from kwiken.export.programs import PROGRAMS, missing_calls

__all__ = ["PROGRAMS", "Target", "check_known", "missing_calls", "read_targets"]
