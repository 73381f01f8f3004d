"""Tests of ``gateway.rescue``."""
