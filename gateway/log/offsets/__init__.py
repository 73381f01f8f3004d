"""Committed offsets of groups: a partition log that keeps the newest value of each key."""
