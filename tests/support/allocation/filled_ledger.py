"""Ledgers filled through residents, so that what a scheduler takes and gives back leaves them as they were."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats


def occupy(
    ledger: NodeLedger,
    node: int,
    *,
    cores: float = 0.0,
    memory_gb: float = 0.0,
    caused: Floats | None = None,
    tolerated: Floats | None = None,
) -> None:
    """Add one resident to a node, which may be sold beyond its cores.

    Args:
        cores: number of cores.
        memory_gb: memory, in units of GB.
        caused: (s,) pressure that the resident exerts, a share, over `SOURCES`; 0 if None.
        tolerated: (s,) pressure that it may be exposed to, a share; nothing is promised if None.
    """
    owner = f"resident-{node}-{ledger.changes}"
    exerted = np.zeros(len(SOURCES)) if caused is None else caused
    ledger.take(Draw(DrawKind.JOB, owner, node, cores, memory_gb, exerted, tolerated), oversell=True)


def fill(
    ledger: NodeLedger,
    *,
    free_cores: ArrayLike | None = None,
    free_memory_gb: ArrayLike | None = None,
    pressure: ArrayLike = 0.0,
    slack: ArrayLike = np.inf,
) -> NodeLedger:
    """Add residents to the empty nodes of a ledger, after which its arrays have the given values.

    Args:
        ledger: ledger without residents.
        free_cores: (n,) number of cores, at most those of the node, negative on an oversold node; all of them
            if None.
        free_memory_gb: (n,) memory in units of GB, at most that of the node; all of it if None.
        pressure: (s, n) shares.
        slack: (s, n) shares of at least minus the pressure, infinite for no promise at all.

    Returns:
        The ledger.
    """
    nodes, shape = ledger.cluster, ledger.pressure.shape
    cores = nodes.cores - np.broadcast_to(nodes.cores if free_cores is None else free_cores, shape[1:])
    memory_gb = nodes.memory_gb - np.broadcast_to(
        nodes.memory_gb if free_memory_gb is None else free_memory_gb, shape[1:]
    )
    caused = np.array(np.broadcast_to(pressure, shape), dtype=np.float64)
    tolerated = np.broadcast_to(slack, shape) + caused
    assert ledger.changes == 0
    assert np.all(cores >= 0)
    assert np.all(memory_gb >= 0)
    assert np.all(tolerated >= 0)
    for node in range(shape[1]):
        occupy(ledger, node, cores=cores[node], memory_gb=memory_gb[node], caused=caused[:, node])
        if np.isfinite(tolerated[:, node]).any():
            occupy(ledger, node, tolerated=tolerated[:, node])
    return ledger


def on_source(values: ArrayLike, source: int = 0) -> Floats:
    """(s, n) pressure of one source, 0 for the others.

    Args:
        values: (n,) shares.
    """
    row = np.atleast_1d(np.asarray(values, dtype=np.float64))
    found = np.zeros((len(SOURCES), len(row)))
    found[source] = row
    return found
