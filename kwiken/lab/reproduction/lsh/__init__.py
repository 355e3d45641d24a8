"""LSH: characterisation by hashed neighbours, and placement by a hashed search of servers."""

from __future__ import annotations

from kwiken.lab.reproduction.lsh.data_centre import (
    RULES as RULES,
    DataCentre as DataCentre,
    run_applications as run_applications,
)
from kwiken.lab.reproduction.lsh.desired_intervals import DesiredIntervals as DesiredIntervals
from kwiken.lab.reproduction.lsh.parts import all_parts as all_parts
from kwiken.lab.reproduction.lsh.population import (
    Applications as Applications,
    applications as applications,
)
