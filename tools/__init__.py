"""For the people who work on the project; not installed."""
