"""Reads a metadata log from its files, as Kafka leaves them.

``read``, ``image`` and ``follow`` are for Python programs; the other modules are what they and the
gateway are made of. It writes no file; ``gateway.log`` does. Names and rules are those of
``Snapshots``, ``LogFileUtils`` and ``FileRecords``.
"""
