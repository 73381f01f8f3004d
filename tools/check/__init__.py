"""The one command that says whether the tree is right: ``python -m tools.check``."""
