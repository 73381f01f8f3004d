"""Tests of the processes that serve clients beside their node."""
