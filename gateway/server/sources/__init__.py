"""Builds what serves the metadata partition, by `source`, and keeps it running."""
