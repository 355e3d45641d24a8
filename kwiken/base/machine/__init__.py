"""Processors and memory of this machine: what this program may use, what it uses, and what is taken away."""
