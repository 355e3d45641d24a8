"""Calls of foreign services: stages that other programs serve, over HTTP or gRPC."""

from __future__ import annotations

from kwiken.runtime.foreign.transport import ForeignTransport

__all__ = ["ForeignTransport"]
