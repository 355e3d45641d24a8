"""Small instances of placement, and the optimum of all workloads of each, found once and kept."""
