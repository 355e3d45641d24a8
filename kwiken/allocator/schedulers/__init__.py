"""Schedulers behind one protocol: Quasar's and Paragon's, baselines, and an exact one for small clusters."""
