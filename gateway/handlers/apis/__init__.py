"""Answers requests: one module for each API, with its promise."""
