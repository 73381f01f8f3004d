"""Runs a node of a KRaft quorum: the core's effects, its files, its peers, its image."""
