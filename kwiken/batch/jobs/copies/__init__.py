"""Copies of tasks: a budget apportioned over the stages of jobs, beside speculation and doubling."""
