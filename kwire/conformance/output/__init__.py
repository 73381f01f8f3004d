"""Prints a report: as text, as JSON and JUnit for programs, as one HTML file.

Nothing here asks a server or judges a result.
"""
