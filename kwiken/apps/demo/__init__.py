"""Demo: runs a real service under load, learns from its traces, plans, applies the plan and compares."""
