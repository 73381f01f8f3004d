"""Implements ``format("kwire")``: a Spark data source that reads the topic from a server or from
files.
"""
