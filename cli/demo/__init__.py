"""The main job on an embedded default: a real service, real load, learn, plan, apply, compare."""
