"""Entry point of `python -m kwiken`, the same as the command `kwiken`."""

from __future__ import annotations

from kwiken.cli import main

main()
