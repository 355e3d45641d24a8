"""Pictures of placements, probes, sizes and provisions, for the verbs that draw them."""

from __future__ import annotations

from kwiken.cli.allocate.pictures.placement_picture import draw_placement as draw_placement
from kwiken.cli.allocate.pictures.probe import draw_probe as draw_probe
from kwiken.cli.allocate.pictures.provision import draw_costs as draw_costs
from kwiken.cli.allocate.pictures.size import draw_frontier as draw_frontier
