"""Shares the event loop between requests: budgets, queues, slices, and what watches them."""
