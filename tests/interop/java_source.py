"""Runs a Java source file of the tests against Kafka's jars, and asks it about texts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.interop.clients import missing
from tools import java

_ASK_TEXT: Final = Path(__file__).with_name("AskText.java")
INVALID, UNKNOWN = "invalid", "unknown"


def run_source(program: Path, *arguments: str, given: str = "") -> str:
    """Return what the program writes; ``given`` is its standard input."""
    class_path = os.pathsep.join(map(str, java.class_path()))
    done = subprocess.run(
        [java.java(), *java.QUICK_START, "-cp", class_path, str(program), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode and "jdk.compiler" in done.stderr:
        missing("this Java runs no source files: a JDK is needed")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def ask_kafka(questions: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return what Kafka says of each (kind, name, text): "valid" and the text that it makes of it,
    INVALID, or UNKNOWN for a name that it does not know.
    """
    given = "".join(f"{kind} {name} {_digits(text)}\n" for kind, name, text in questions)
    lines = (line.partition(" ") for line in run_source(_ASK_TEXT, given=given).splitlines())
    return [
        (verdict, bytes.fromhex(text).decode("utf-16-be", "surrogatepass"))
        for verdict, _, text in lines
    ]


def _digits(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()
