"""Record of the processor use of replicas: samples for a packing, and the last windows for headroom."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from kwiken.allocator.packing.tasks.usage import UsageSeries
from kwiken.base.arrays import Floats

MAX_SAMPLES: Final = 10_080  # of a replica: a week of minutes
RECENT_WINDOWS: Final = 12  # a minute of windows of 5 s
NAN: Final = math.nan


class UseRecord:
    """Use of each replica, as means over samples of one length.

    Args:
        sample_s: length of a sample, seconds; a window that is longer is a sample of its own.
    """

    def __init__(self, sample_s: float) -> None:
        self._sample_s = sample_s
        self._samples: dict[str, array[float]] = {}  # all of one length, NaN where a replica was not there
        self._times: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._sums: dict[str, tuple[float, int]] = {}  # of the sample that is not over yet
        self._began_s = -math.inf
        self._recent: deque[Mapping[str, float]] = deque(maxlen=RECENT_WINDOWS)

    def add(self, now_s: float, cores: Mapping[str, float]) -> None:
        """Add a window.

        Args:
            now_s: moment on a monotonic clock, seconds.
            cores: number of cores in use, by replica; replicas that are not known are left out.
        """
        self._recent.append(dict(cores))
        for key, used in cores.items():
            total, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = total + used, count + 1
        if now_s - self._began_s < self._sample_s:
            return
        if math.isfinite(self._began_s):
            self._close(now_s)
        self._sums.clear()
        self._began_s = now_s

    def _close(self, now_s: float) -> None:
        """End a sample."""
        length = len(self._times)
        for key in self._sums:
            self._samples.setdefault(key, array("d", [NAN]) * length)
        self._times.append(now_s)
        means = {key: total / count for key, (total, count) in self._sums.items()}
        for key, values in self._samples.items():
            values.append(means.get(key, NAN))
            if len(values) > MAX_SAMPLES:
                del values[0]

    def copied(self, old: str, new: str) -> None:
        """Let a replica that takes another one's place begin with the samples of that one."""
        if old in self._samples:
            self._samples[new] = array("d", self._samples[old])

    def keep(self, keys: Collection[str]) -> None:
        """Drop the samples of all other replicas."""
        for key in self._samples.keys() - set(keys):
            del self._samples[key]

    def series(self, keys: Sequence[str]) -> UsageSeries:
        """Samples of some replicas, NaN where there is none; memory is not known.

        Args:
            keys: (t) keys of the replicas, in the order of the rows.
        """
        cores = np.full((len(keys), len(self._times)), NAN)
        for row, key in enumerate(keys):
            if key in self._samples:
                cores[row] = self._samples[key]
        return UsageSeries(np.array(self._times), cores, np.full_like(cores, NAN))

    def recent(self, keys: Sequence[str]) -> Floats:
        """(t, w) Use of some replicas in the last windows; NaN where it is not known."""
        found = [[window.get(key, NAN) for window in self._recent] for key in keys]
        return np.array(found, dtype=np.float64).reshape(len(keys), len(self._recent))
