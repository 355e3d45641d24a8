"""Lines of waiting as queues of Kueue."""
