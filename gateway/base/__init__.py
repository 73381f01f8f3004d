"""Small rules and values that every part of the gateway shares; each imports nothing of it."""
