"""Segments of a log and their indexes: batches checked, written, found and cut."""
