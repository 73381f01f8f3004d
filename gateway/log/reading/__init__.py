"""Follows a log that this process or another one writes, for its readers."""
