"""`python -m kwiken.cli` is `kwiken`."""

from __future__ import annotations

from kwiken.cli import main

main()
