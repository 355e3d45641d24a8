"""Stressors of stress-ng as stages of a service, for the recorded history."""
