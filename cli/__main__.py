"""`python -m cli` is `kwiken`."""

from __future__ import annotations

from cli import main

main()
