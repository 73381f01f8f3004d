"""Builds tables of changes, current state and history from the metadata topic."""
