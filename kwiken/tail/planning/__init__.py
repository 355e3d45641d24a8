"""Planner: makes a plan with its expectation from a profile and budgets."""
