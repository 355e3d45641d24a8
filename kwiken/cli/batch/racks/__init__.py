"""Plans of racks at the command line: their run, and their picture."""

from __future__ import annotations

from kwiken.cli.batch.racks.plan_picture import draw_plan as draw_plan
