"""Builds the processes of a server from its configuration, and runs them: a node, its workers."""
