"""Measures whether an own quorum's memory stays flat while topics and groups are created and
deleted for a long time.
"""
