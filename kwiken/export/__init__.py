"""A plan as settings that gRPC, Envoy and Istio take; what they cannot express is said in notes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from kwiken._plan import Plan
from kwiken.export._calls import Target, check_known, read_targets
from kwiken.export._envoy import envoy_bootstrap
from kwiken.export._grpc import grpc_config
from kwiken.export._hedges import Exported
from kwiken.export._istio import istio_documents
from kwiken.export._programs import PROGRAMS

__all__ = [
    "PROGRAMS",
    "Exported",
    "Target",
    "check_known",
    "envoy_bootstrap",
    "grpc_config",
    "istio_documents",
    "read_targets",
]
