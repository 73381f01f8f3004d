"""Fixtures for every test."""

from tests.shared import logs

__all__ = ["logs"]
