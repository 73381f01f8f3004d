"""Runs servers under load for hours, and shows whether they grow."""
