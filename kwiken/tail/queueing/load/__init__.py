"""Load model: a profile decomposed into work and waiting, and simulated at another load."""
