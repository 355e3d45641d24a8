"""Inputs of a load run: settings, arrival schedule and request bodies, read and checked before it starts."""
