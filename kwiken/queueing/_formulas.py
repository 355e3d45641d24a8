"""Textbook formulas of queues: what the simulator is held to, and quick answers where they hold.

Utilisation is the share of the servers' time that is used, below 1. Arrivals are Poisson.
"""

from __future__ import annotations

import math

from kwiken._errors import InputError
from kwiken.queueing._law import Law


def erlang_c(servers: int, utilisation: float) -> float:
    """Probability that a call of M/M/k has to wait (Erlang 1917).

    Args:
        servers: k, with one queue before them.
        utilisation: from 0 to below 1.

    Raises:
        InputError: for no servers, or a queue that never settles.
    """
    _check(utilisation)
    if servers < 1:
        raise InputError(f"must be 1 or more, not {servers}", where="servers")
    blocked = 1.0  # Erlang B by its recursion: no factorials to overflow
    load = servers * utilisation
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - utilisation * (1 - blocked))


def mmk_mean_wait_ms(servers: int, utilisation: float, mean_ms: float) -> float:
    """Mean wait of M/M/k, milliseconds (Erlang 1917).

    Args:
        servers: how many.
        utilisation: share of the time that each works, from 0 to below 1.
        mean_ms: mean work, milliseconds.

    Raises:
        InputError: as `erlang_c`.
    """
    return erlang_c(servers, utilisation) * mean_ms / (servers * (1 - utilisation))


def mmk_latency_beyond(servers: int, utilisation: float, mean_ms: float, age_ms: float) -> float:
    """Probability that a call of M/M/k takes longer than `age_ms`, wait and work together (Erlang 1917).

    Args:
        servers: how many.
        utilisation: share of the time that each works, from 0 to below 1.
        mean_ms: mean work, milliseconds.
        age_ms: latency in question, milliseconds.

    Raises:
        InputError: as `erlang_c`.
    """
    waits = erlang_c(servers, utilisation)
    serve, drain = 1 / mean_ms, servers * (1 - utilisation) / mean_ms
    slow = math.exp(-serve * age_ms)
    if math.isclose(drain, serve):
        return slow * (1 + waits * serve * age_ms)
    return slow + waits * serve / (serve - drain) * (math.exp(-drain * age_ms) - slow)


def mg1_mean_wait_ms(utilisation: float, work: Law) -> float:
    """Mean wait of M/G/1 in the order of arrival, milliseconds (Pollaczek 1930, Khinchine 1932).

    Args:
        utilisation: share of the time that the server works, from 0 to below 1.
        work: law of the work, milliseconds.

    Raises:
        InputError: for a queue that never settles.
    """
    _check(utilisation)
    if not work.mean_ms > 0:
        return 0.0
    return utilisation * work.square_ms2 / (2 * work.mean_ms * (1 - utilisation))


def sharing_mean_ms(utilisation: float, work_ms: float) -> float:
    """Mean latency of a call of that work under M/G/1 processor sharing, whatever the law (Kleinrock 1967).

    Args:
        utilisation: share of the time that the server works, from 0 to below 1.
        work_ms: work of a call if it were alone, milliseconds.

    Raises:
        InputError: for a queue that never settles.
    """
    _check(utilisation)
    return work_ms / (1 - utilisation)


def _check(utilisation: float) -> None:
    if not 0 <= utilisation < 1:
        raise InputError(f"must be from 0 to below 1, not {utilisation}", where="utilisation")
