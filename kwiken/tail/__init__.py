"""Tail: a profile in, a plan out; curves, apportionment, simulation, judgement and advice."""
