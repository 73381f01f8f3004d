"""Grades servers and clients of several makes, and writes the pages with their cards."""
