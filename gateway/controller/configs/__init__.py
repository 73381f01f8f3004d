"""Configuration keys of topics, brokers, groups and client metrics as Kafka defines them
(ConfigDef).
"""
