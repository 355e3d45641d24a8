"""Causes of latency: the map of the last responders (Figure 5.2), and what the source alone could measure."""
