"""Support for tests of models: profiles, distributions, formulas."""
