"""Registry of reproductions, by name of the source."""

from __future__ import annotations

from kwiken.errors import InputError
from kwiken.reproduction import beyond, combined, held_out, incomplete, late, search
from kwiken.reproduction import reissues as reissues_module
from kwiken.reproduction.rows import Reproduction

NAMES = {"kwiken": "Kwiken (Jalaparti et al., SIGCOMM 2013): reissues, partial answers, catch-up"}


def reproduction(name: str, *, seeds: int = 8) -> Reproduction:
    """Reproduction of a source.

    Args:
        name: one of `NAMES`.
        seeds: number of synthetic populations to average over.

    Raises:
        InputError: for an unknown name or no seed.
    """
    if name not in NAMES:
        raise InputError(f"nothing reproduces {name!r}; known: {', '.join(NAMES)}")
    if seeds < 1:
        raise InputError(f"seeds must be 1 or more, not {seeds}")
    parts = (
        reissues_module.part(seeds),
        reissues_module.other_populations(),
        reissues_module.curves_part(0),
        *incomplete.parts(0),
        *late.parts(0),
        combined.part(0, dags=3),
        *search.parts(0),
        *beyond.parts(0),
        held_out.part(0),
    )
    return Reproduction(name, NAMES[name], parts)
