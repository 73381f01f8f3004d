"""Tests of kwire.conformance."""
