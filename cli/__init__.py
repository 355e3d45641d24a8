"""The `kwiken` command: one thin module a verb."""
