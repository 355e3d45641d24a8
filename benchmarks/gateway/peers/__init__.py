"""Benchmark of kwiken beside other programs that hedge or retry: the same service, faults and extra load."""
