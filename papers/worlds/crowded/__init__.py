"""Crowded world: managers compared in a world that is not their schedulers' model."""
