"""Hostile input against the whole server, as it is served to clients: nobody but the attacker
notices.
"""
