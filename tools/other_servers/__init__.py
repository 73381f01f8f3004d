"""Builds and starts Kafka servers and clients of other makes, for cards and benchmarks."""
