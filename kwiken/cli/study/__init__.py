"""Verbs that compute from traces, profiles and plans: fit, explain, report, export, reproduce."""
