"""Textbook formulas of queues with Poisson arrivals, as a reference for the queueing simulator.

Utilisation is the share of the servers' time that is used, from 0 to below 1.
"""

from __future__ import annotations

import math


def erlang_c(servers: int, utilisation: float) -> float:
    """Probability that a call of M/M/k has to wait (Erlang 1917)."""
    blocked = 1.0  # Erlang B by its recursion: no factorials to overflow
    load = servers * utilisation
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - utilisation * (1 - blocked))


def mmk_mean_wait_ms(servers: int, utilisation: float, mean_ms: float) -> float:
    """Mean wait of M/M/k, milliseconds (Erlang 1917)."""
    return erlang_c(servers, utilisation) * mean_ms / (servers * (1 - utilisation))


def mm1_latency_beyond(utilisation: float, mean_ms: float, age_ms: float) -> float:
    """Probability that a call of M/M/1 takes longer than `age_ms`, wait and work together."""
    return math.exp(-(1 - utilisation) * age_ms / mean_ms)


def mg1_mean_wait_ms(utilisation: float, mean_ms: float, square_ms2: float) -> float:
    """Mean wait of M/G/1 in the order of arrival, milliseconds (Pollaczek 1930, Khinchine 1932).

    Args:
        utilisation: of the server.
        mean_ms: of the work.
        square_ms2: second moment of the work.
    """
    return utilisation * square_ms2 / (2 * mean_ms * (1 - utilisation))
