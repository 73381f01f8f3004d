"""Faults that a proxy puts between a server and the rules, to measure what the rules find."""
