"""Implements consumer groups of KIP-848 as a state machine: members only send heartbeats, and the
coordinator assigns partitions.

Follows Kafka's ``ConsumerGroup`` and the ``consumerGroup...`` methods of ``GroupMetadataManager``.
A group and its offsets are in ``gateway.groups.group``, whatever its protocol; the coordinator
there calls this package. Members may use the classic protocol (``classic_members``), and groups
change between the protocols (``conversion``). It has no share groups and no streams groups.
"""
