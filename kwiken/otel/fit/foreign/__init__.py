"""Traces of services that do not run on kwiken, fitted: child calls become stages."""
