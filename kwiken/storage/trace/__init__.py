"""Traces of block I/O: records as arrays, readers of formats, sequences, reuse of blocks."""

from __future__ import annotations

from kwiken.storage.trace.block_trace import (
    BlockTrace as BlockTrace,
    trace_of as trace_of,
)
from kwiken.storage.trace.formats import (
    OWN_HEADER as OWN_HEADER,
    trace_from_text as trace_from_text,
)
from kwiken.storage.trace.stack_distance import (
    block_accesses as block_accesses,
    hit_ratios as hit_ratios,
    last_accesses as last_accesses,
)
