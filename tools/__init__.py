"""Programs for developers of kwire: checks, measurements, imports and test clusters. They are not
installed.
"""
