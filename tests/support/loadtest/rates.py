"""Requests per second of an hour, drawn at random, in a file that `--arrivals` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def hour_of_rates(folder: Path, noise: float, seed: int = 0) -> Path:
    """Write whole numbers of requests, one a line: a slow wave, with noise from second to second.

    Args:
        folder: folder of the file.
        noise: standard deviation of the logarithm of the rate.
        seed: seed of the noise.
    """
    wave = 250 + 150 * np.sin(np.linspace(0, 2 * np.pi, 3600, endpoint=False))
    rates = np.rint(wave * np.exp(noise * np.random.default_rng(seed).standard_normal(3600)))
    path = folder / "rates.txt"
    path.write_text("\n".join(str(int(rate)) for rate in rates) + "\n")
    return path
