"""Drawn traces and texts of formats."""

from __future__ import annotations

import numpy as np

from kwiken.storage.trace.block_trace import BlockTrace, trace_of

FORMAT_TEXTS = {
    "MQSim": "1000 0 8 16 1\n2000 1 16 8 0\n",
    "MSR": "128166372003061629,hm,1,Read,4096,8192,113736\n128166372003071629,hm,1,Write,8192,4096,10\n",
    "SPC": "0,8,8192,R,0.0\n0,16,4096,w,0.001\n",
    "vSCSI": "sn,len,nSG,cmd,ver,lbn,ts\n1,8192,1,40,2,8,1000\n2,4096,1,42,2,16,2000\n3,512,1,0,2,1,2500\n",
    "fio iolog 3": "fio version 3 iolog\n0 a add\n0 a open\n5 a read 4096 8192\n1005 a write 8192 4096\n2000 a close\n",
    "fio iolog 2": "fio version 2 iolog\na add\na open\na read 4096 8192\na wait 1000\na write 8192 4096\na close\n",
    "blkparse": (
        "  8,0    3        1     0.000000000   697  Q   R 8 + 16 [fio]\n"
        "  8,0    3        2     0.000010000   697  G   R 8 + 16 [fio]\n"
        "  8,0    3        3     0.001000000   698  Q  WS 16 + 8 [fio]\n"
        "CPU3 (8,0):\n Reads Queued:           1,        8KiB\n"
    ),
    "kwiken CSV": "t_s,volume,start,size,op,thread\n0.0,a,4096,8192,R,0\n0.001,a,8192,4096,W,1\n",
}


def zipf_trace(ios: int = 20_000, seed: int = 5) -> BlockTrace:
    """Hot blocks by Zipf's law, in one volume."""
    rng = np.random.default_rng(seed)
    block = rng.zipf(1.2, ios) % 200_000 * 2654435761 % 200_000
    return trace_of(
        np.cumsum(rng.gamma(0.3, 3.0, ios)) * 1e-3,
        np.zeros(ios, dtype=np.int64),
        block * 4096,
        np.full(ios, 4096),
        rng.random(ios) < 0.7,
        where="zipf",
    )


def log_and_hot_zone(ios: int = 20_000, seed: int = 7, *, threads: bool = True) -> BlockTrace:
    """A log of sequential writes, a hot zone and a cold zone of random reads."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, ios, p=[0.3, 0.5, 0.2])
    log = np.cumsum(kind == 0) * 8192 % (1 << 28)
    hot = (1 << 30) + rng.integers(0, 1 << 14, ios) * 4096
    cold = (2 << 30) + rng.integers(0, 1 << 20, ios) * 8192
    return trace_of(
        np.cumsum(rng.gamma(0.5, 2.0, ios)) * 1e-3,
        np.zeros(ios, dtype=np.int64),
        np.choose(kind, [log, hot, cold]),
        np.where(kind == 0, 8192, 4096),
        kind != 0,
        kind if threads else None,
        where="log",
    )


def striped_trace(ios: int = 4000, parts: int = 5, seed: int = 11) -> BlockTrace:
    """Random accesses to the parts of a stripe, hot at their beginning, and a log of sequential writes."""
    rng = np.random.default_rng(seed)
    log = rng.random(ios) < 0.1
    part = rng.integers(parts, size=ios)
    hot = rng.random(ios) < 0.4
    block = np.where(hot, rng.integers(0, 1 << 14, ios), rng.integers(0, 1 << 18, ios))
    names = np.where(log, "log", part.astype(str))
    return trace_of(
        np.cumsum(rng.exponential(2.0, ios)) * 1e-3,
        names.tolist(),
        np.where(log, np.cumsum(log) * 8192, block * 4096),
        np.where(log, 8192, 4096),
        ~log & (rng.random(ios) < 0.7),
        where="stripe",
    )
