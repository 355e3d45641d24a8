"""Calls of foreign services: stages that other programs serve, over HTTP or gRPC."""

from __future__ import annotations

from kwiken.runtime.wire.foreign.transport import ForeignTransport as ForeignTransport
