"""Measures whether the memory of a quorum of kwire stays constant while topics and groups are
created and deleted for a long time.
"""
