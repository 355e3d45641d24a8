"""Consolidation of data sets on few nodes: limits, interference, forecast, packing, moves, energy."""
