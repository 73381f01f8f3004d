"""Connections of Kafka clients: listeners, framing, dispatch, pending responses, output."""
