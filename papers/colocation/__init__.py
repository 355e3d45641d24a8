"""Colocation at a hyperscaler: packing by percentiles of use, softened by sensitivity scores."""
