"""Nodes and racks: machines of a cluster, their classes, slots and links, and their document."""
