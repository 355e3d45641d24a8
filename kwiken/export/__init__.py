"""Plans as settings of gRPC, Envoy and Istio, with notes on what these cannot express; a writer of YAML."""

from __future__ import annotations

from kwiken.export.calls import Target, check_known, read_targets
from kwiken.export.programs import PROGRAMS, missing_calls
from kwiken.export.yaml import dump

__all__ = ["PROGRAMS", "Target", "check_known", "dump", "missing_calls", "read_targets"]
