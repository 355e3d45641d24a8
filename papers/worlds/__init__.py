"""Simulated worlds that the published systems are tried in, with the kernels that they share."""
