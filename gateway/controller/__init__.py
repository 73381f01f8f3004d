"""The controller of our own quorum, pure: (state, request, now) to records and answer. KIP-631, as
shipped Kafka has it.

``controller.py`` is the way in; one file an area decides: topics, partitions, configurations,
registrations.
"""
