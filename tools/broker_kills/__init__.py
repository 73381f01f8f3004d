"""Kills a broker of one node again and again under load, and judges what is left."""
