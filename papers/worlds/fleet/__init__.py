"""Simulated fleets: scenarios on clusters too large to own, run under any scheduler of the allocator."""
