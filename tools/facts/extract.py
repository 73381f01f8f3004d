"""Reads a release's facts from its jars and writes them as text that a diff shows line by line.

The facts are error codes, API keys, ACL enums, configuration keys, levels of metadata.version and
of the other features. KafkaFacts.java reads them by reflection in a process of its own; this module
runs it and knows none of the facts.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tools.java import QUICK_START, JavaError, class_path, java

PROGRAM: Final = Path(__file__).with_name("KafkaFacts.java")
_TIMEOUT_S: Final = 120
#: How deep the text is indented; what lies deeper stands on one line.
_DEPTH: Final = 3


def read_facts(version: str) -> dict[str, Any]:
    """The facts of Kafka ``version``, from the jars that Maven brings. Raises JavaError."""
    jars = os.pathsep.join(map(str, class_path(version)))
    line = [
        java(),
        *QUICK_START,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        jars,
        str(PROGRAM),
    ]
    done = subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise JavaError(
            f"{PROGRAM.name} with the jars of {version} ended with"
            f" {done.returncode}:\n{done.stderr[-4000:]}"
        )
    return compact(json.loads(done.stdout))


def compact(facts: dict[str, Any]) -> dict[str, Any]:
    """Return ``facts`` with each property of levels as the list of levels at which it changes:
    ``[[7, false], [11, true]]``.
    """
    versions = facts["metadataVersions"]
    rows = {level["level"]: level.pop("supports") for level in versions["levels"]}
    versions["supports"] = {
        name: _steps({level: row[name] for level, row in rows.items()}) for name in rows[min(rows)]
    }
    for feature in facts["features"]:
        feature["defaults"] = _steps(
            {int(level): default for level, default in feature["defaults"].items()}
        )
    return facts


def _steps(values: dict[int, Any]) -> list[tuple[int, Any]]:
    """The (level, value) of each level whose value is not that of the level below."""
    levels = sorted(values)
    return [
        (level, values[level])
        for i, level in enumerate(levels)
        if not i or values[level] != values[levels[i - 1]]
    ]


def render(facts: dict[str, Any]) -> str:
    """Return the facts as JSON text with one row on each line; equal facts give equal bytes."""
    return _render(facts, 0) + "\n"


def _render(value: Any, depth: int) -> str:
    pad, end = "  " * (depth + 1), "\n" + "  " * depth
    if (
        depth < _DEPTH
        and isinstance(value, dict)
        and any(isinstance(one, (dict, list)) for one in value.values())
    ):
        rows = [f"{pad}{json.dumps(key)}: {_render(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(rows) + end + "}"
    if depth < _DEPTH and isinstance(value, dict) and depth:
        rows = [f"{pad}{json.dumps(key)}: {json.dumps(one)}" for key, one in value.items()]
        return "{\n" + ",\n".join(rows) + end + "}" if len(rows) > _DEPTH else json.dumps(value)
    if depth < _DEPTH and isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + _render(one, _DEPTH) for one in value) + end + "]"
    return json.dumps(value)
