"""Stack distances beside a plain LRU list."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given, strategies as st

from kwiken.storage.trace.stack_distance import hit_ratios, stack_distances


@given(st.lists(st.integers(0, 12), min_size=1, max_size=200), st.integers(1, 12))
def test_distances_give_the_hits_of_a_cache(blocks: list[int], size: int) -> None:
    accesses = np.unique(np.array(blocks), return_inverse=True)[1].astype(np.int64)
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for block in accesses.tolist():
        hits.append(block in cache)
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > size:
            cache.popitem(last=False)
    distance = stack_distances(accesses)
    assert ((distance >= 0) & (distance < size)).tolist() == hits


def test_a_cache_of_all_blocks_misses_each_once() -> None:
    accesses = np.array([0, 1, 2, 0, 1, 2])
    assert hit_ratios(accesses, np.array([1 / 3, 1.0])).tolist() == [0.0, 0.5]
