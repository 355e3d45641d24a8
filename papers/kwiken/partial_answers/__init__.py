"""Partial answers: Table 5.2, Figures 5.4 and 5.6, and the rules beside the source's."""
