"""Plans as settings of gRPC, Envoy and Istio, with notes on what these cannot express; a writer of YAML."""

from __future__ import annotations

from kwiken.export.calls import Target as Target, check_known as check_known, read_targets as read_targets
from kwiken.export.programs import PROGRAMS as PROGRAMS, missing_calls as missing_calls
from kwiken.export.yaml import dump as dump
