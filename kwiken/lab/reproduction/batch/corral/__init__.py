"""Results of Corral: tuples that are reserved, and jobs that are planned on racks."""

from __future__ import annotations

from kwiken.lab.reproduction.batch.corral.parts import all_parts as all_parts
