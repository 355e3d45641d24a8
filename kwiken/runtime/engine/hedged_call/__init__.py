"""Hedged call of a stage: its attempts, the budget that pays for copies, and its context."""
