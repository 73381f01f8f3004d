"""Builds the pages of the tree as a browsable site, with Sphinx (docs/decisions/0012)."""
