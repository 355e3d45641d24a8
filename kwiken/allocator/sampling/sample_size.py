"""Sizes of samples: how many candidates to draw so that the best of them is good enough, surely enough.

Rank the candidates of a job by quality, from 0 to 1. The best of `R` independent draws has a rank of at most
`x` with probability `x ** R`, whatever the job, the cluster and its load are (Tarcil, equation 6; Paragon
section 3.8). No NumPy: the replica choice of a gateway may use these too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError

MAX_DRAWS: Final = 100_000  # of one guarantee
ROUNDING: Final = 1e-9  # draws by which a quotient of logarithms may be off


@dataclass(frozen=True)
class Guarantee:
    """Promise of a sample: with probability `1 - failure` its best candidate is better than a share of all.

    Attributes:
        quality: share of the candidates that the chosen one must be better than, above 0 and below 1.
        failure: probability that it is not, above 0 and below 1.
    """

    quality: float
    failure: float

    def __post_init__(self) -> None:
        """Check the ranges; NaN fails too."""
        for name in ("quality", "failure"):
            value = getattr(self, name)
            if not 0.0 < value < 1.0:
                raise InputError(
                    f"{name} must be above 0 and below 1, not {value:g}; for example 0.9:0.001 is one of the "
                    "best tenth but for one time in a thousand",
                    where="guarantee",
                )
        if self.exact_draws > MAX_DRAWS:
            raise InputError(
                f"needs {self.exact_draws:.3g} draws, and {MAX_DRAWS} are the most", where="guarantee"
            )

    @property
    def exact_draws(self) -> float:
        """Number of draws as a quotient of logarithms, not rounded."""
        return math.log(self.failure) / math.log(self.quality)

    @property
    def draws(self) -> int:
        """Least number of independent draws that keeps the promise."""
        return draws_for(self.quality, self.failure)


def guarantee_from_text(text: str) -> Guarantee:
    """Guarantee written as `QUALITY:FAILURE`, for example `0.9:0.001`.

    Raises:
        InputError: for another form, or numbers outside 0 to 1.
    """
    parts = text.split(":")
    try:
        quality, failure = (float(part) for part in parts)
    except ValueError:
        raise InputError(
            f"must be QUALITY:FAILURE such as 0.9:0.001, not {text!r}", where="guarantee"
        ) from None
    return Guarantee(quality, failure)


def draws_for(quality: float, failure: float) -> int:
    """Least number of independent draws whose best has a rank above a quality but for a probability.

    Args:
        quality: rank that the best draw must exceed, above 0 and below 1.
        failure: probability that it does not, above 0 and below 1.
    """
    return max(1, math.ceil(math.log(failure) / math.log(quality) - ROUNDING))


def failure_of(quality: float, draws: int) -> float:
    """Probability that the best of some independent draws has a rank of at most a quality."""
    return float(quality**draws)
