"""ECHO: a temporal and a hierarchical spatial model of the traffic of data centres."""
