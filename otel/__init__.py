"""The senses: spans out, traces in."""

from __future__ import annotations

from otel._records import AttemptKind, AttemptRecord, Observer, Outcome, RequestRecord, StageRecord

__all__ = ["AttemptKind", "AttemptRecord", "Observer", "Outcome", "RequestRecord", "StageRecord"]
