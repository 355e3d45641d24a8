"""Semantic conventions of tracers, old and new: facts on a span from its attributes."""
