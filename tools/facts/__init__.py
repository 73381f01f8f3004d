"""Reads the data of Kafka's classes from the jars of a release and keeps it as JSON under
``schemas/facts``.
"""
