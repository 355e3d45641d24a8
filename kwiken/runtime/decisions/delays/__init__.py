"""Delays of copies: while calls of all stages are slow, and by the present latency of a stage."""

from __future__ import annotations

from kwiken.runtime.decisions.delays.common_delay import (
    CommonDelay as CommonDelay,
    UsualLatency as UsualLatency,
)
from kwiken.runtime.decisions.delays.followed_delay import FollowedDelay as FollowedDelay
