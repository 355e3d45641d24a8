"""High-resolution timer for greenlets, on a Linux timerfd.

gevent's own timers wait in epoll, which counts whole milliseconds. A request would start up to a millisecond
late, and that delay would count as latency. A timerfd is a file that becomes readable at the exact time.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gevent
from gevent import get_hub

_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)  # TFD_NONBLOCK | TFD_CLOEXEC


class _Itimerspec(ctypes.Structure):
    """`struct itimerspec` of timerfd_settime(2): period, first expiry, each as seconds and nanoseconds."""

    _fields_ = (
        ("period_s", ctypes.c_long),
        ("period_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class Timer:
    """Timer that wakes the calling greenlet at a time of `time.monotonic`.

    Without a timerfd the greenlet wakes up to a millisecond late.
    """

    def __init__(self) -> None:
        self._set: Callable[..., int] | None = None
        self._fd = -1
        self._watcher: Any = None
        with suppress(OSError, AttributeError):  # not Linux: no such function
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
            self._set = libc.timerfd_settime if self._fd >= 0 else None
        if self._set is not None:
            self._watcher = get_hub().loop.io(self._fd, 1)

    def sleep_until(self, moment: float) -> None:
        """Sleep until `moment` (seconds of `time.monotonic`); returns at once if it has passed."""
        while (left := moment - time.monotonic()) > 0:
            if self._set is None or not self._arm(moment):
                gevent.sleep(left)
                return
            get_hub().wait(self._watcher)
            with suppress(BlockingIOError):
                os.read(self._fd, 8)

    def _arm(self, moment: float) -> bool:
        """Set the timer; returns whether the kernel accepted it."""
        assert self._set is not None
        seconds = int(moment)
        spec = _Itimerspec(0, 0, seconds, int((moment - seconds) * 1e9))
        return self._set(self._fd, _ABSOLUTE, ctypes.byref(spec), None) == 0

    def close(self) -> None:
        """Close the timer's file descriptor; later sleeps use gevent's timer."""
        if self._set is not None:
            self._watcher.stop()
            self._watcher.close()
            self._set = None
            os.close(self._fd)
