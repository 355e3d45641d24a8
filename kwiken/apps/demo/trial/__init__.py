"""Trial of the demo: arms, measurements, spend and verdict."""
