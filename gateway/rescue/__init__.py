"""Rescues a metadata quorum that has lost its majority, from the copies of the log that are left.

``read_copy`` reads directories, ``compare`` and ``verdict`` choose the copy, ``refusals`` and
``plan`` decide what is written, ``write`` writes it. Kafka has no such tool; the way is that of a
KRAFT_VOTERS record (KIP-853) at an epoch above every one that was seen. It talks to no server.
"""
