"""Log lines: JSON and text, levels, colours on a terminal, tracebacks, streams that fail."""

from __future__ import annotations

import datetime
import io
import json
import os
import subprocess
import sys

import pytest

from gateway.server.logging.log_lines import LEVELS, LogLines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def failure() -> Exception:
    """An exception with a traceback."""
    try:
        raise RuntimeError("the cause")
    except RuntimeError as error:
        return error


def test_json_line_has_timestamp_level_event_and_fields() -> None:
    stream, before = io.StringIO(), datetime.datetime.now(datetime.UTC)
    LogLines("info", "json", stream).write("warning", "an event", {"number": 1, "text": "a\nb"})
    after = datetime.datetime.now(datetime.UTC)
    (line,) = stream.getvalue().splitlines()
    values = json.loads(line)
    written = datetime.datetime.fromisoformat(values.pop("timestamp"))
    # A line has milliseconds.
    before = before.replace(microsecond=before.microsecond // 1000 * 1000)
    assert before <= written <= after
    assert values == {"level": "warning", "event": "an event", "number": 1, "text": "a\nb"}


def test_json_line_shows_a_value_that_json_has_not_by_its_repr() -> None:
    stream = io.StringIO()
    LogLines("info", "json", stream).write("info", "an event", {"value": b"bytes"})
    assert json.loads(stream.getvalue())["value"] == "b'bytes'"


def test_text_line_has_sorted_fields_and_quotes_values_with_spaces() -> None:
    stream = io.StringIO()
    fields = {"number": 1, "empty": "", "error": "no room\n", "name": "plain"}
    LogLines("info", "console", stream).write("error", "an event", fields)
    (line,) = stream.getvalue().splitlines()
    _, rest = line.split("Z ")
    assert rest == (
        "[error    ] an event                       empty= error='no room\\n' name=plain number=1"
    )


@pytest.mark.parametrize("style", ["json", "console"])
def test_exception_is_written_with_its_traceback(style: str) -> None:
    stream = io.StringIO()
    LogLines("info", style, stream).write("error", "a bug", {"exc_info": failure()})
    text = stream.getvalue()
    if style == "json":
        text = json.loads(text)["exception"]
    assert 'raise RuntimeError("the cause")' in text
    assert text.rstrip().endswith("RuntimeError: the cause")


@pytest.mark.parametrize("least", LEVELS)
def test_events_below_the_level_are_dropped(least: str) -> None:
    stream = io.StringIO()
    lines = LogLines(least, "json", stream)
    for level in LEVELS:
        lines.write(level, "an event", {})
    written = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert written == [level for level in LEVELS if LEVELS[level] >= LEVELS[least]]


def test_style_auto_is_coloured_text_on_a_terminal_and_json_elsewhere() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        LogLines("info", "auto", stream).write("info", "an event", {"number": 1})
    assert "\x1b[" in terminal.getvalue() and "number" in terminal.getvalue()
    assert json.loads(file.getvalue())["number"] == 1


def test_text_that_is_not_for_a_terminal_has_no_colours() -> None:
    stream = io.StringIO()
    LogLines("info", "console", stream).write("info", "an event", {"number": 1})
    assert "\x1b" not in stream.getvalue()


def test_stream_that_cannot_be_written_loses_the_line_only() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    closed = io.StringIO()
    closed.close()
    broken = os.fdopen(writing, "w", buffering=1)
    for stream in (broken, closed):
        LogLines("info", "auto", stream).write("info", "an event", {})
    with pytest.raises(BrokenPipeError):
        broken.close()


def test_server_starts_without_rich_which_can_be_imported_afterwards() -> None:
    code = (
        "import sys; import gateway.app.node; print('rich' in sys.modules); import rich.console;"
        " print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
