"""A node of a KRaft quorum, as a pure machine: events in, ordered effects out. No clock, dice,
files, sockets.

KIP-595 with the snapshots of KIP-630, the voter changes of KIP-853, the pre-vote of KIP-996 and the
high watermark of KIP-1166, as Kafka ships them (``KafkaRaftClient``, ``QuorumState``,
``LeaderState``).
"""
