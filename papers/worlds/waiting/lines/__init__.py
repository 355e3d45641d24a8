"""Lines of jobs by the quality of node that they need, budgets of waiting, changes of line (ARQ).

Pure: the clock is handed in.
"""
