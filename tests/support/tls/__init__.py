"""Authorities and certificates that tests make for themselves, with the `openssl` command."""
