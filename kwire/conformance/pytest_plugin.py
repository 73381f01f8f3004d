"""Runs the rules as tests: ``pytest --pyargs kwire.conformance --conform-bootstrap HOST:PORT``.

The entry point ``pytest11`` brings the options to every pytest of an environment with kwire; the
rules and the codec are imported only for a run that collects this package. Each rule is an item
``kwire.conformance::RULE-ID``. Outcomes as items:

* pass: passed;
* fail, timeout, error, and a known failure that passes: failed, with the sentence, the frames as
  annotated trees, and the command that repeats the check;
* not offered, not applicable, not tried: skipped, with the reason;
* deviation of Kafka, advice, known failure: xfailed, with the sentence. The server does not keep
  the rule, so "passed" would say too much, and pytest counts and names xfailed items by themselves.

Connections are plain sockets. A plugin or conftest that defines ``pytest_conform_target(address)``
returns another ``kwire.conformance.session.Target``, for TLS and SASL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kwire.conformance.outcome import Report, Result
    from kwire.conformance.rule import Rule
    from kwire.conformance.runner import Options
    from kwire.conformance.session import Session, Target

_PACKAGE: Final = "kwire.conformance"
_DIRECTORY: Final = Path(__file__).parent
_RUN: Final = pytest.StashKey["_Run"]()


class _Specification:
    @pytest.hookspec(firstresult=True)
    def pytest_conform_target(self, address: str) -> Target | None:
        """Return the listener to check, or None for plain sockets."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare ``pytest_conform_target``."""
    pluginmanager.add_hookspecs(_Specification)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("conform", "conformance of a Kafka server")
    group.addoption("--conform-bootstrap", metavar="HOST:PORT", help="the server to check")
    group.addoption(
        "--conform-rule",
        action="append",
        default=[],
        metavar="ID",
        help="only this rule; also a family, or a pattern with *; may be repeated",
    )
    group.addoption(
        "--conform-as-of", metavar="RELEASE", help="only rules that Kafka kept in this release"
    )
    group.addoption(
        "--conform-allow",
        metavar="FILE",
        help="rules that are known to fail: one a line, an id and a reason",
    )
    group.addoption(
        "--conform-destructive",
        action="store_true",
        help="also rules that change more than names of their own",
    )
    group.addoption(
        "--conform-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long one rule may take (10)",
    )


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the rules in place of test files of this package."""
    if path != _DIRECTORY:
        return None
    found: Conformance = Conformance.from_parent(parent, path=path, nodeid=_PACKAGE)
    return found


class Conformance(pytest.Directory):
    """All rules that the options select."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return an item for each rule. It connects to no server."""
        run = self.config.stash.setdefault(_RUN, _Run(self.config))
        for rule in run.rules:
            yield RuleItem.from_parent(self, name=rule.id, nodeid=f"{_PACKAGE}::{rule.id}", of=rule)


class RuleItem(pytest.Item):
    """One rule."""

    def __init__(self, *, of: Rule, **more: Any) -> None:
        super().__init__(**more)
        self._rule = of

    def runtest(self) -> None:
        """Run the check."""
        from kwire.conformance.outcome import Outcome

        result = self.config.stash[_RUN].result(self._rule)
        outcome = result.outcome
        if outcome in (Outcome.NOT_OFFERED, Outcome.NOT_APPLICABLE, Outcome.NOT_TRIED):
            pytest.skip(f"{outcome.value}: {result.sentence}")
        if outcome in (Outcome.DEVIATION, Outcome.ADVICE, Outcome.ALLOWED):
            pytest.xfail(f"{outcome.value}: {result.sentence}")
        if outcome is not Outcome.PASS:
            raise RuleNotKept(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report of the broken rule in place of a stack trace of this package."""
        if isinstance(excinfo.value, RuleNotKept):
            return "\n".join(_paragraph(excinfo.value.result, self.config.stash[_RUN].report()))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the place and the name that pytest prints."""
        return self.path, None, f"rule {self._rule.id}"


class RuleNotKept(Exception):
    """The server does not keep the rule."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.sentence)
        self.result = result


class _Run:
    """The rules and, from the first check on, the session of a run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        from kwire.conformance.catalog import select, server_rules

        self._config = config
        self._session: Session | None = None
        patterns = config.getoption("conform_rule")
        release = config.getoption("conform_as_of")
        try:
            self.rules = select(server_rules(), patterns=patterns, as_of=release)
        except ValueError:
            raise pytest.UsageError(f"--conform-as-of: {release} is no release such as 4.1")
        if not self.rules:
            raise pytest.UsageError("--conform-rule selects no rule")
        self._options = self._read_options()
        if config.getoption("conform_bootstrap") is None and not config.option.collectonly:
            raise pytest.UsageError("give the server: --conform-bootstrap HOST:PORT")

    def _read_options(self) -> Options:
        from kwire.conformance.catalog import server_rules
        from kwire.conformance.known_failures import read_known_failures
        from kwire.conformance.runner import Options

        file, allowed = self._config.getoption("conform_allow"), {}
        if file is not None:
            try:
                text = (self._config.invocation_params.dir / file).read_text(encoding="utf-8")
                allowed = read_known_failures(text, {rule.id for rule in server_rules()})
            except (OSError, ValueError) as error:
                raise pytest.UsageError(f"--conform-allow: {file}, {error}")
        destructive = self._config.getoption("conform_destructive")
        return Options(destructive=destructive, allowed=allowed)

    def result(self, rule: Rule) -> Result:
        """Run a check. The first one opens the session; without a server the run of pytest ends."""
        from kwire.conformance.outcome import Result
        from kwire.conformance.runner import judged, run_rule

        session = self._opened()
        not_run = session.why_not(rule, self._options.destructive)
        result = run_rule(session, rule) if not_run is None else Result(rule, *not_run)
        return judged(result, self._options.allowed)

    def report(self) -> Report:
        """Return a report without results, which knows the command line."""
        from kwire.conformance.outcome import Report

        address = self._config.getoption("conform_bootstrap")
        return Report(address, frozenset(), {}, [], command=f"kwire conform {address}")

    def clean_up(self) -> list[str]:
        """Remove what the checks made. Returns a sentence for each thing that is left."""
        return [] if self._session is None else self._session.clean_up()

    def _opened(self) -> Session:
        from kwire.conformance.opening import open_session
        from kwire.conformance.session import CannotConnect

        if self._session is None:
            address = self._config.getoption("conform_bootstrap")
            target = self._config.hook.pytest_conform_target(address=address) or _plain(address)
            try:
                self._session = open_session(target, self._config.getoption("conform_timeout"))
            except CannotConnect as error:
                pytest.exit(str(error), returncode=pytest.ExitCode.INTERRUPTED)
        return self._session


def _plain(address: str) -> Target:
    from kwire.conformance.connection import open_plain
    from kwire.conformance.session import Target

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        pytest.exit(f"--conform-bootstrap: {address} is not HOST:PORT", returncode=4)
    opened = open_plain(host.strip("[]"), int(port))
    return Target(address, opened, opened)


def _paragraph(result: Result, report: Report) -> Iterator[str]:
    from kwire.conformance.output.tree_text import round_trips_text

    rule = result.rule
    yield f"{result.outcome.value}: {result.sentence}"
    yield ""
    yield f"rule    {rule.says}"
    yield f"source  {rule.source}, {rule.section}" if rule.section else f"source  {rule.source}"
    yield f"again   {report.repeat(result)}"
    yield ""
    yield from round_trips_text(result)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what the checks made, also after Ctrl-C."""
    run = session.config.stash.get(_RUN, None)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for left in [] if run is None else run.clean_up():
        if reporter is not None:
            reporter.write_line(left)
