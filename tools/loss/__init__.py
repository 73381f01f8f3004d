"""Does a metadata quorum lose, reorder or invent anything while its nodes are killed, paused and
cut off?

``writers`` append and keep a journal, ``watch`` asks who leads, ``reading`` collects every node's
log afterwards, and ``checker`` judges it all, knowing nothing of where it comes from.
"""
