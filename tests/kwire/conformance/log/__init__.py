"""Tests of the rules of logs."""
