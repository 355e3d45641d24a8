"""Measures of the search service: quality of answers, cost of stages, query mixes."""
