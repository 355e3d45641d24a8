"""Populations: synthetic services and platforms with the statistics that published sources report."""

from __future__ import annotations

from kwiken.lab.populations.platforms import platform_rows as platform_rows
from kwiken.lab.populations.services import (
    POPULATIONS as POPULATIONS,
    StageDistribution as StageDistribution,
    fan_out_queries as fan_out_queries,
    population as population,
    population_profile as population_profile,
)
