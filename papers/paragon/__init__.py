"""Paragon: classification by platform and by source of contention, and the schedulers compared."""
