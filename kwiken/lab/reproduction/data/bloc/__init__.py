"""BLOC: data sets packed on few nodes by bandwidth, interference and the load of the day."""

from __future__ import annotations

from kwiken.lab.reproduction.data.bloc.parts import all_parts as all_parts
