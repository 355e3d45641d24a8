"""Order statistics: exact gain of waiting for the first k of n responders (Kwiken Table 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import betaincinv

from kwiken.base.errors import InputError

Quantile = Callable[[float], float]


def rank_for(n: int, loss: float) -> int:
    """Number of n responders to wait for if a share `loss` may be missing: `ceil(n (1 - loss))`."""
    return math.ceil(round(n * (1.0 - loss), 9))  # rounded, as .999 x 1000 may otherwise give 1000


def order_quantile(share: float, k: int, n: int) -> float:
    """Probability level, in one draw's distribution, of the `share`-quantile of the k-th of n draws.

    The k-th order statistic of uniforms is Beta(k, n - k + 1).

    Raises:
        InputError: unless 0 < share < 1 and 1 <= k <= n.
    """
    if not (0 < share < 1 and 1 <= k <= n):
        raise InputError(f"need 0 < share < 1 and 1 <= k <= n, not share={share}, k={k}, n={n}")
    return float(betaincinv(k, n - k + 1, share))


def wait_for_fraction_gain(quantile: Quantile, n: int, loss: float, share: float) -> float:
    """Relative fall of a quantile of a fan-out's latency when it waits for `1 - loss` of n responders.

    Args:
        quantile: inverse distribution function of one responder's latency.
        n: number of responders, 1 or more.
        loss: share of the responders that may be missing, from 0 to 1.
        share: level of the fan-out's quantile, .99 for p99.
    """
    all_in = quantile(order_quantile(share, n, n))
    enough_in = quantile(order_quantile(share, rank_for(n, loss), n))
    return 1.0 - enough_in / all_in
