"""Tuples of slots and bandwidth for requests: the tree they are reserved on, and the choice among them."""
