"""Traffic maps between senders and receivers, by level and window: learned from flows, judged, generated."""
