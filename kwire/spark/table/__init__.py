"""Tables of changes, current state and history, built from the metadata topic."""
