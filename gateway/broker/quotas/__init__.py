"""Limits what clients may do in a time: quotas per user and client id (KIP-13, 124, 219, 599).

Follows Kafka's ``QuotaFactory``. ``client_quotas`` has all quotas of a node and follows the image,
``request_quota`` is one request's part in them. Time comes from the clock that the node gives.
"""
