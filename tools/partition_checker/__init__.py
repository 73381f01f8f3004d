"""Tests whether brokers lose, repeat, reorder or take back records of replicated partitions while
they are killed, paused and cut off: ``python -m tools.partition_checker``.

``brokers`` runs the cluster, of kwire's and Kafka's nodes; ``faults`` harms it; ``readers`` note
what consumers see meanwhile; the writers are those of ``tools.broker_kills``; ``judge`` compares
all of it with the records and the logs that are there at the end.
"""
