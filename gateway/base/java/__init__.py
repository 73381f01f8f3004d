"""Reads texts as Java reads them, for values that Kafka's brokers and tools read too."""
