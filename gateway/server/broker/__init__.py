"""Runs the broker of this node: its registration, and the partitions that hold data."""
