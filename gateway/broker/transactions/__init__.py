"""Coordinates transactions (KIP-98). Pure: an event in, effects out."""
