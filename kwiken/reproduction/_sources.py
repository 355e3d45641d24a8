"""Sources whose tables and figures are computed anew, by name."""

from __future__ import annotations

from kwiken._errors import InputError
from kwiken.reproduction import _beyond, _combined, _held_out, _incomplete, _late, _reissues, _search
from kwiken.reproduction._rows import Reproduction

NAMES = {"kwiken": "Kwiken (Jalaparti et al., SIGCOMM 2013): reissues, partial answers, catch-up"}


def reproduction(name: str, *, seeds: int = 8) -> Reproduction:
    """What reproduces a source.

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
        _reissues.part(seeds),
        _reissues.other_populations(),
        _reissues.curves_part(0),
        *_incomplete.parts(0),
        *_late.parts(0),
        _combined.part(0, dags=3),
        *_search.parts(0),
        *_beyond.parts(0),
        _held_out.part(0),
    )
    return Reproduction(name, NAMES[name], parts)
