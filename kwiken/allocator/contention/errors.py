"""Errors of probes."""

from __future__ import annotations

from kwiken.base.errors import KwikenError


class ProbeError(KwikenError):
    """A probe cannot measure: the machine, the stage or the data are not what it needs."""
