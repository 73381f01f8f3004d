"""Tests of the families of rules."""
