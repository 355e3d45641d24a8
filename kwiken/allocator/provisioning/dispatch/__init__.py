"""Dispatch: which jobs run on reserved nodes, which on rented ones, and which wait (HCloud section 3)."""
