"""Generates Python text from schema JSON. It imports nothing of kwire's runtime, so that a broken
runtime can be regenerated.
"""
