"""Deployment of a user's service: finds its code and dependencies, and writes a folder that runs it."""
