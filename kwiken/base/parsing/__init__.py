"""Strict parsers of untrusted JSON, TOML and YAML: bounded, no duplicates; errors name line or field."""
