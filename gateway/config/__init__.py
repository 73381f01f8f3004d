"""Reads and checks the configuration file and its overrides."""
