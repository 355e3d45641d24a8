"""Partial answers: stop rules of fan-outs within a budget of lost utility."""
