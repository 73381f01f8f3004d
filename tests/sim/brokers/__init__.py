"""Deterministic simulation of brokers that replicate partitions, under controllers that decide,
with producers and consumers.

The pure cores are those of the server (``gateway.broker``, ``gateway.controller``); network, chance
and acts are those of ``tests.sim``. ``python -m tests.sim.brokers 42`` replays a seed.
``docs/broker-simulation.md`` lists the faults, the invariants and the results.
"""
