"""Compacts the log of a partition: which segments, which of their records, and how they are
replaced.
"""
