"""Runs the active controller: proposals, forwarding in Envelopes (KIP-590), the audit log."""
