"""Check-up of a machine before kwiken runs or measures on it."""
