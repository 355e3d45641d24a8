"""Verbs that compute from traces, profiles and plans: fit, explain, advise, report, export."""
