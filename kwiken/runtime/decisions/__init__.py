"""Pure decisions of the runtime: state machines without clock, sockets or global randomness.

Names load on first use: a replica needs the histogram alone, and neither plans nor races.
"""
