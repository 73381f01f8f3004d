"""Deterministic simulation of whole quorums: N ``Raft`` cores with simulated disks, clocks and a
network, and faults in all of these.

``python -m tests.sim 42`` replays a seed. ``docs/simulation.md`` lists the faults, the invariants
and the results so far.
"""
