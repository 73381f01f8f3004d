"""Measures kwire beside its peers and prints one table: ``python -m tools.bench [NAME...]``.

A bench is a module of this package with ``run() -> list[dict]``, one row for each measurement. The
table begins with these columns:

* ``what``: the measurement; ``unit``: of ``kwire`` and ``peer_value``
* ``kwire``: kwire's value; ``peer``: the software it is compared with; ``peer_value``: its value
* ``ratio``: how many times better kwire's value is; ``bar``: the ratio to reach, if there is one
* ``ok``: whether a bar holds that is not on the ratio

Other columns follow by their names. The command's exit status is 1 if a bar does not hold.
"""
