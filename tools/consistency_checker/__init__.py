"""Tests whether a metadata quorum loses, reorders or invents records while its nodes are killed,
paused and cut off.

``writers`` append and keep a journal, ``watch`` asks for the leader, ``reading`` collects every
node's log afterwards, and ``checker`` judges the history, whatever its source.
"""
