"""Hostile input against the whole server: other clients are served as before."""
