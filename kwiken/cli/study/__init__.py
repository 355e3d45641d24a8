"""Verbs that compute: fit, plan, simulate, explain, report, export, reproduce."""
