"""The tables and figures of the sources, computed anew beside their published values."""

from __future__ import annotations

from kwiken._errors import InputError
from kwiken._population import POPULATIONS, StageLaw, population, population_profile
from kwiken.reproduction import _beyond, _combined, _held_out, _incomplete, _late, _reissues, _search
from kwiken.reproduction._rows import Findings, Job, Plot, Reproduction, Row, Series, one_by_one, run
from kwiken.reproduction._sources import NAMES, reproduction

__all__ = [
    "NAMES",
    "POPULATIONS",
    "Findings",
    "Job",
    "Plot",
    "Reproduction",
    "Row",
    "Series",
    "StageLaw",
    "one_by_one",
    "population",
    "population_profile",
    "reproduction",
    "run",
]
