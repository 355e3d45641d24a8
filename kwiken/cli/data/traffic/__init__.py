"""Verbs of traffic: who sends how much to whom, learned from spans and flow logs."""

from __future__ import annotations

from kwiken.cli.data.traffic.reading import load_traffic as load_traffic
