"""The driver of the group coordinator."""
