"""The names of the tables."""

from __future__ import annotations

from typing import Final

from kwire.spark.table.kinds import KINDS

#: The tables to which rows are only added.
APPENDED: Final = ("changes", "errors", "load")
NAMES: Final = (*APPENDED, *(kind.table for kind in KINDS))
