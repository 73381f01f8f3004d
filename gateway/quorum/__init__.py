"""Implements a node of a KRaft quorum as a pure machine: events in, ordered effects out.

It has no clock, random numbers, files or sockets of its own. It follows KIP-595 with the snapshots
of KIP-630, the voter changes of KIP-853, the pre-vote of KIP-996 and the high watermark of
KIP-1166, as Kafka ships them (``KafkaRaftClient``, ``QuorumState``, ``LeaderState``).
"""
