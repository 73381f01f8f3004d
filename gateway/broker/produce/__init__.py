"""The checks of what producers send: batches and their records, and the sequences of producers."""
