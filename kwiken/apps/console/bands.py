"""Steps of colour and shade in heat maps, on the terminal and in the report."""

from __future__ import annotations

BANDS = (1.5, 3.0, 6.0, 12.0, 24.0)  # multiples of the stage's median latency
