"""Connections to other nodes: TLS, SASL, API versions, requests with a time limit."""
