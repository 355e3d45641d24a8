"""Token bucket of things that must not happen too often, such as log lines. The time is passed in."""

from __future__ import annotations


class TokenBucket:
    """Token bucket.

    Args:
        burst: number of tokens that it holds at most, 1 or more; it starts full.
        every_s: time after which one more token is there, seconds.
        now: present time, seconds of any clock.
    """

    __slots__ = ("_at", "_burst", "_every_s", "_left")

    def __init__(self, burst: int, every_s: float, now: float) -> None:
        self._burst = burst
        self._every_s = every_s
        self._left = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Take one token if there is one; returns whether there was."""
        self._left = min(self._burst, self._left + (now - self._at) / self._every_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
