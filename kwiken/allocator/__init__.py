"""Allocator: workloads and unequal nodes in, a placement out; classification, sizes, moves."""
