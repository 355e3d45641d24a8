"""Entry point of `python -m kwiken.cli`, the same as `kwiken`."""

from __future__ import annotations

from kwiken.cli import main

main()
