"""Verbs of jobs planned on racks: the document of racks, the run, the demo, and the picture of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.batch.racks.plan_inputs import (
        PlannedCluster as PlannedCluster,
        assumed_cluster as assumed_cluster,
        cluster_in as cluster_in,
        read_cluster as read_cluster,
    )
    from kwiken.cli.batch.racks.plan_picture import draw_plan as draw_plan

__getattr__ = lazy_names(__name__, __file__)
