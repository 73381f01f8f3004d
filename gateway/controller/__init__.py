"""The KRaft controller (KIP-631): turns a state, a request and a moment into records and a
response.

It does no I/O and reads no clock. ``controller.py`` has the interface; each request is decided in
its own module of ``apis``, with rules for partitions, brokers and configurations in the modules
here. Follows ``QuorumController`` of Kafka 4.4.
"""
