"""Runs the further processes of ``workers``, and connects each with the node that started it."""
