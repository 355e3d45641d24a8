"""Verbs that make a plan or replay one: plan, simulate, judge."""
