"""Shared parts of the verbs: options, input files, error messages, findings on a profile."""
