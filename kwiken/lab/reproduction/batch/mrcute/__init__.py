"""Results of MRCute: completion times of MapReduce jobs predicted from one run on one machine."""

from __future__ import annotations

from kwiken.lab.reproduction.batch.mrcute.parts import all_parts as all_parts
