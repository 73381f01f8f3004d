"""The metadata log: its snapshots, recovery, retention, and a voter's or an observer's store."""
