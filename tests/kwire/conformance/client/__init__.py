"""Tests of the rules of clients."""
