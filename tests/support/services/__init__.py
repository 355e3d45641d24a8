"""Services for tests: steady, late, failing, broken."""
