"""Tests of trees of dissected bytes."""
