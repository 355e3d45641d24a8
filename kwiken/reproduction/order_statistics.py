"""What waiting for the first k of n responders buys, exactly (Kwiken Table 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import betaincinv

from kwiken.errors import InputError

Quantile = Callable[[float], float]


def rank_for(n: int, loss: float) -> int:
    """How many of n responders to wait for when a share `loss` may be missing: `ceil(n (1 - loss))`."""
    return math.ceil(round(n * (1.0 - loss), 9))  # rounded, or .999 x 1000 would give 1000 at times


def order_quantile(share: float, k: int, n: int) -> float:
    """The share of the law that the `share`-quantile of the k-th of n independent draws stands at.

    The k-th order statistic of uniforms is Beta(k, n - k + 1).

    Raises:
        InputError: unless 0 < share < 1 and 1 <= k <= n.
    """
    if not (0 < share < 1 and 1 <= k <= n):
        raise InputError(f"need 0 < share < 1 and 1 <= k <= n, not share={share}, k={k}, n={n}")
    return float(betaincinv(k, n - k + 1, share))


def wait_for_fraction_gain(quantile: Quantile, n: int, loss: float, share: float) -> float:
    """By which fraction a quantile of a fan-out's latency falls when it waits for `1 - loss` of n.

    Args:
        quantile: inverse distribution function of one responder's latency.
        n: responders.
        loss: share of them that may be missing.
        share: which quantile of the fan-out's latency, .99 for p99.
    """
    all_in = quantile(order_quantile(share, n, n))
    enough_in = quantile(order_quantile(share, rank_for(n, loss), n))
    return 1.0 - enough_in / all_in
