"""MapReduce jobs by MRCute's formulas: stage times, tuples for a deadline, and rates learned from logs."""
