"""Runs every check of the tree with one command: ``python -m tools.check``."""
