"""Protocols and values that handlers and their callers share; they know no server."""
