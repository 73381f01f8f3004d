"""Fetches jars that Spark needs beside PySpark, by Maven."""
