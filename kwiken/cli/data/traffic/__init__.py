"""Verbs of traffic: who sends how much to whom, learned from spans and flow logs."""
