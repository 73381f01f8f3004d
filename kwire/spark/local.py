"""Settings of a Spark session on one machine that answers a question or two and ends, as the one of
``kwire spark`` does.
"""

from __future__ import annotations

from typing import Final

#: A job of a few seconds ends before the optimizing compiler of the JVM has paid for itself, and on
#: two cores that compiler and the threads of the collector compete with the job. Stages that adapt
#: themselves cost more than they save for tables that one machine folds. Code of the first compiler
#: needs a larger stack.
SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
