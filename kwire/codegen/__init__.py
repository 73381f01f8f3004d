"""Schema JSON to Python text. Imports nothing of kwire's runtime, so that a broken runtime can
always be regenerated.
"""
