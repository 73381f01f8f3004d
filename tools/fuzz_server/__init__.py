"""Fuzzing of a live server: seeded frames over every API and version, sent to its listeners."""
