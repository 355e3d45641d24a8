"""Pictures of placements, probes, sizes and provisions, for the verbs that draw them."""
