"""The replicas of a partition: what its leader and its followers decide. Pure."""
