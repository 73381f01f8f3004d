"""Measurements, printed side by side: ``python -m tools.bench [NAME...]``.

A bench is a module of this package with ``run() -> list[dict]``, a row a measurement. Columns that
are known are shown first:

* ``what``: what was measured; ``unit``: of ``ours`` and ``theirs``
* ``ours``, ``peer``, ``theirs``: our value, the name of what it is compared with, and that one's
  value
* ``ratio``: how many times better kwire's value is; ``bar``: the ratio that must be reached, where
  there is a bar
* ``ok``: whether a bar holds that is not one on the ratio

Anything else follows by its own name. The command's exit status is 1 when a bar does not hold.
"""
