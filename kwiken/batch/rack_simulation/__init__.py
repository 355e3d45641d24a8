"""Simulation of racks: tasks share slots and links, so that a plan is judged beside other schedulers."""
