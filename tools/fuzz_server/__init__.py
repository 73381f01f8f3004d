"""Fuzzes a live server: sends seeded frames of every API and version to its listeners."""
