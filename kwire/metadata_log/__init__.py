"""Reads a metadata log from its files, as Kafka leaves them.

It follows no running log and writes no file; ``gateway.log`` does. Names and rules are those of
``Snapshots``, ``LogFileUtils`` and ``FileRecords``.
"""
