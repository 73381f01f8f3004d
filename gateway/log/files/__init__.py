"""Kafka's small files of a data directory, and the disk that writes them."""
