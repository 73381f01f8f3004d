"""Serves the view topics: makes their batches on demand, in a thread."""
