"""Helpers of tests: virtual time, scripted replicas, small builders."""
