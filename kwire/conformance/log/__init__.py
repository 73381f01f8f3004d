"""Checks a metadata log on disk: segments, snapshots and the small files beside them.

    report = check_log(Path("/var/lib/kafka/metadata/__cluster_metadata-0"))

It opens files for reading only, and starts nothing. ``rules`` has the rules, ``check`` runs them.
"""
