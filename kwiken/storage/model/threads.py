"""Threads: one for each stream, state and class, that issue their shares of the I/Os all the time.

Stride scheduling in virtual time (Webster's rule): the j-th I/O of a thread of weight `w` comes at
`(j + 1/2) / w`, so that every share is within a few I/Os of its quota at any point of the trace.
"""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.model.reuse import place_in_group


def thread_order(stream: Ints, leaf: Ints, number: Ints) -> Ints:
    """(n,) order of I/Os by which every thread keeps its share of the whole in each part.

    Args:
        stream: (n,) stream of each I/O.
        leaf: (n,) state of each I/O.
        number: (n,) class of each I/O.
    """
    key = np.unique(np.stack((stream, leaf, number)), axis=1, return_inverse=True)[1].ravel()
    return stride_order(key, np.bincount(key).astype(np.float64))


def stride_order(thread: Ints, weight: Floats) -> Ints:
    """(n,) order of I/Os of threads by stride scheduling.

    Args:
        thread: (n,) thread of each I/O.
        weight: (t,) weight of each thread, above 0.
    """
    return np.argsort((place_in_group(thread) + 0.5) / weight[thread], kind="stable")


def weights(stream: Ints, leaf: Ints, number: Ints) -> Floats:
    """(t,) share of the I/Os of each thread that occurs, in the order of streams, states and classes."""
    counts = np.unique(np.stack((stream, leaf, number)), axis=1, return_counts=True)[1]
    shares: Floats = counts / len(stream)
    return shares
