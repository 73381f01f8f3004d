"""Writes the log of the server: events, lines, and limits on both."""
