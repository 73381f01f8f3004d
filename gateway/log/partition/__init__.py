"""The log of one partition in its directory: append, roll, flush, truncate, recover."""
