"""Verb of packing: what to move so that fewer nodes are needed."""
