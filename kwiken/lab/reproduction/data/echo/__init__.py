"""ECHO: a temporal and a hierarchical spatial model of the traffic of data centres."""

from __future__ import annotations

from kwiken.lab.reproduction.data.echo.parts import all_parts as all_parts
