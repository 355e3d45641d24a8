"""Tasks on nodes and what they use over time, as arrays."""
