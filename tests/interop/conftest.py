"""Marks the interoperability tests, starts the longest first, and prints what each client read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.browser import Browser, browser
from tests.interop.package import build, environment

#: (log, way, records, sha256), for the table at the end of the run.
READ: list[tuple[str, str, int, str]] = []
#: Measurements that a test prints at the end, whether it passes or not.
FIGURES: list[str] = []


#: The files that take longest, longest first. More are run at a time than there are cores, because
#: each waits for elections and time-outs half of its time; one that comes last is waited for alone.
_LONGEST: Final = (
    "test_spark_fleet_delta",
    "test_spark_fleet_iceberg",
    "test_replicated_partitions",
    "test_rescue",
    "test_spark_fleet_kills",
    "test_spark",
    "test_spark_42",
    "test_spark_tables",
    "test_spark_source",
    "test_spark_jobs",
    "test_spark_live",
    "test_view_sinks",
    "test_package",
    "test_audit",
    "test_own_quorum_clients",
    "test_first_hour",
    "test_quorum_failover",
    "test_admin_tools",
    "test_logs",
    "test_own_quorum_failover",
    "test_own_quorum_crashes",
    "test_conform_kafka",
    "test_real_brokers",
    "test_quorum_observed",
    "test_conform_releases",
    "test_partition_life",
    "test_controller_plain_model",
)
#: Files whose tests share one Spark session. The start of one and its first queries take some 15 s
#: of processor time, so that each list runs in one process (``--dist loadfile``).
_SPARK: Final = (
    (
        "test_spark_tables",
        "test_spark_jobs",
        "test_spark_questions",
        "test_view_sinks",
        "test_spark_live",
        "test_spark_broker",
    ),
    (
        "test_spark",
        "test_spark_source",
        "test_audit",
        "test_own_quorum_clients",
    ),
)
#: Files whose tests share one built package and the environment that it is installed into.
_PACKAGE: Final = ("test_first_hour", "test_package")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
    items.sort(key=_rank)


def group(file: str) -> str:
    """The name of the files whose tests run in the same process as those of ``file``."""
    for number, files in enumerate(_SPARK, 1):
        if Path(file).stem in files:
            return f"spark-{number}"
    return "package" if Path(file).stem in _PACKAGE else file


def _rank(item: pytest.Item) -> int:
    return _LONGEST.index(item.path.stem) if item.path.stem in _LONGEST else len(_LONGEST)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the source distribution, and the wheel that was built from it."""
    return build(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and nothing of the checkout; the tests of
    the package add the extras.
    """
    return environment(tmp_path_factory.mktemp("user") / "venv", *built.glob("*.whl"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running Chromium for the tests of one file."""
    with browser() as running:
        yield running


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over the rows and figures of its tests."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = (READ, FIGURES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The process that distributes the tests collects the rows and figures of a worker."""
    read, figures = getattr(node, "workeroutput", {}).get("figures", ((), ()))
    READ.extend(tuple(row) for row in read)
    FIGURES.extend(figures)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if READ:
        terminalreporter.section(
            "what the clients read (SHA-256 over offsets, timestamps, keys and values)"
        )
        for log, way, count, sha256 in READ:
            terminalreporter.write_line(f"{log:<24} {way:<22} {count:>7} records  {sha256}")
    if FIGURES:
        terminalreporter.section("figures")
        for line in FIGURES:
            terminalreporter.write_line(line)
