"""A deterministic simulation of whole quorums: N ``Raft``s, their disks, clocks and network, with
every fault there is.

``python -m tests.sim 42`` replays a seed; ``docs/simulation.md`` says what is simulated, and what
it was worth so far.
"""
