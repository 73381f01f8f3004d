"""Fixtures for every test, and what no test may take from the environment it happens to run in."""

import atexit
import functools
import gc
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.handlers.table import controller_handlers, handlers
from gateway.server.logging.logs import Reports
from tests.shared import logs
from tools.process import PATIENCE

__all__ = ["event_loop_is_not_held", "logs"]

# Tests hold whole logs and what they should be. With the usual thresholds that costs a third of all
# the time.
gc.set_threshold(100_000, 50, 100)

# An event or a field that is in no table fails the test that reports it.
Reports.strict = True

#: Environment variables that libraries read to find the terminal's width and colours, and the kind
#: of machine. rich reads them when a Console is made, click when it styles. Child processes inherit
#: these values.
_SET = {
    "TERM": "xterm",
    "COLUMNS": "80",
    "LINES": "24",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}
_UNSET = (
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "COLORTERM",
    "CI",
    "GITHUB_ACTIONS",
    "BUILD_NUMBER",
    "JUPYTER_COLUMNS",
    "JUPYTER_LINES",
    "JPY_PARENT_PID",
    "DATABRICKS_RUNTIME_VERSION",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONWARNINGS",
    "PYTHONDEVMODE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def _fix_environment() -> None:
    """Tests are the same on a terminal, in CI, over ssh and under ``env -i``, in every locale and
    time zone.
    """
    for name in [
        *_UNSET,
        *(name for name in os.environ if name.startswith("KWIRE_") and name not in _SWITCHES),
    ]:
        os.environ.pop(name, None)
    os.environ.update(_SET)
    # A test waits for several conditions.
    os.environ.setdefault("PYTEST_TIMEOUT", f"{300 * PATIENCE:.0f}")
    # A server that is given no directory must not write into the home of the person who runs the
    # tests.
    home = tempfile.mkdtemp(prefix="kwire-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(XDG_STATE_HOME=f"{home}/state", XDG_DATA_HOME=f"{home}/data")
    time.tzset()


#: Variables of the tests themselves, not keys of the server.
_SWITCHES = frozenset(
    {
        "KWIRE_INTEROP",
        "KWIRE_PATIENCE",
        "KWIRE_SPEED",
        "KWIRE_CACHE",
        "KWIRE_SHARED",
        "KWIRE_SEED",
        "KWIRE_PARTITION_STEPS",
        "KWIRE_COMPARE_MUTANTS",
        "KWIRE_ADMIN_REQUESTS",
        "KWIRE_SPARK_CLUSTER_KILLS",
        "KWIRE_SPARK_KILLS",
    }
    | {"KWIRE_SIM_BROKERS", "KWIRE_SIM_SEEDS", "KWIRE_SIM_SCHEDULES", "KWIRE_REWRITE_TRANSCRIPTS"}
)

_fix_environment()

# Hypothesis looks at CI when it is imported, thus after that is unset. It limits time by the clock,
# which a busy machine exceeds, in particular while Hypothesis makes its table of Unicode.
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile("kwire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kwire")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` some files share a process (``tests.interop.conftest``)."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.interop.conftest import group

    scheduler = importlib.import_module("xdist.scheduler").LoadFileScheduling(config, log)
    by_file = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: group(by_file(nodeid))
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a file for their figures, tests that measure have nothing to say (tests/speed.py). A
    test has its timeout as many times as it has the patience of one that runs alone.
    """
    for item in items:
        if mark := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(mark.args[0] * PATIENCE), append=False)
    if "KWIRE_SPEED" not in os.environ:
        measuring = [item for item in items if item.get_closest_marker("speed")]
        config.hook.pytest_deselected(items=measuring)
        items[:] = [item for item in items if not item.get_closest_marker("speed")]


#: The folder, and the word in other files, of the tests that a run of these markers selects.
_SELECTED: Final = {
    "interop": ("interop", "mark.interop"),
    "speed or alone": ("hostile", "mark.speed"),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files without tests of the markers of a run: each of its processes would import and
    parametrize twelve thousand tests to select some hundred.
    """
    if (selected := _SELECTED.get(config.option.markexpr)) is None:
        return None
    if not collection_path.match("test_*.py"):
        return None
    folder, word = selected
    marked = collection_path.parent.name == folder or word in collection_path.read_text()
    return None if marked else True


@functools.cache
def _warm_up() -> None:
    """Import what a server imports soon after its start
    (``gateway.server.scheduling.import_warmup``): tests send requests earlier, and the watchdog
    would report the imports.
    """
    for table in (handlers(), controller_handlers()):
        for handler in table.values():
            for version in handler.versions:
                handler.request_type(version)
    for name in (
        "gateway.controller.controller",
        "gateway.server.management.management",
        *importlib.import_module("gateway.server.scheduling.import_warmup").FIRST_USE_MODULES,
    ):
        importlib.import_module(name)


def _hide_from_collector() -> None:
    """Exclude what the tests before have left from garbage collections, as ``kwire serve`` does
    with its modules once it is ready.

    A server of this process would otherwise wait for a pass over the objects of thousands of tests,
    100 ms to 200 ms. Here it costs little, as it visits only what came since the test before.
    """
    gc.collect()
    gc.freeze()


#: The property of a test's report that has the reports of watchdogs.
_HELD: Final = "event loop held"
#: So many reports of watchdogs are printed at the end of a run.
_HELD_ROWS_MAX: Final = 20


@pytest.fixture(autouse=True)
def event_loop_is_not_held(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Collects what the watchdogs of servers report, in this process or in one that
    tools.own_quorum or tools.gateway_process started.

    It fails no test: the same step takes several times as much processor time on a machine that
    does other work. ``tests/gateway/steps.py`` counts what a step does.
    """
    reported: list[tuple[int, str]] = []
    if (watchdog := sys.modules.get("gateway.server.scheduling.loop_watchdog")) is not None:
        _warm_up()
        _hide_from_collector()
        _collect_reports(watchdog.LoopWatchdog, reported, monkeypatch)
    yield
    if (processes := sys.modules.get("tools.loop_reports")) is not None:
        reported += [(processes.milliseconds(line), line) for line in processes.loop_reports.take()]
    if reported:
        request.node.user_properties.append((_HELD, reported))


def _collect_reports(
    cls: Any, reported: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Have every watchdog of this process add its reports to ``reported``."""
    original = cls.held

    def held(watchdog: Any, task: Any, seconds: float, fields: dict[str, Any]) -> None:
        # Tests run in the loop of the server, and their own tasks do as they like.
        if "/tests/" not in task.coro.cr_code.co_filename:
            reported.append((round(seconds * 1000), f"{task.name} {fields or ''}"))
        original(watchdog, task, seconds, fields)

    monkeypatch.setattr(cls, "held", held)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the longest steps of servers, which are no verdict."""
    rows = sorted(
        (
            (milliseconds, line, report.nodeid)
            for reports in terminalreporter.stats.values()
            for report in reports
            if getattr(report, "when", None) == "teardown"
            for name, reported in report.user_properties
            if name == _HELD
            for milliseconds, line in reported
        ),
        reverse=True,
    )
    if rows:
        terminalreporter.section(f"steps of servers of 50 ms or longer, no verdict: {len(rows)}")
    for milliseconds, line, test in rows[:_HELD_ROWS_MAX]:
        terminalreporter.write_line(f"{milliseconds} ms: {line.strip()[:300]} in {test}")
