"""Implements ``kwire conform``: checks a server, client or log by ``kwire.conformance``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.base.address import Address
from gateway.cli.address import parse_address, parse_seconds
from gateway.cli.server_options import client_security, command_config

if TYPE_CHECKING:
    from kwire.conformance.outcome import Report
    from kwire.conformance.rule import Rule

_INTERRUPTED: Final = 130
_TIMEOUT_S: Final = 10.0
_WORKERS: Final = 8
_FORMS: Final = ("text", "json", "junit", "html")


@click.command(
    "conform",
    short_help="Check a server, client or log against the rules of the protocol.",
    epilog="""\b
Examples:
  kwire conform localhost:9092
  kwire conform localhost:9092 --html report.html
  kwire conform localhost:9092 --rule framing --rule 'schema.Fetch.*'
  kwire conform ctl1:9093 --command-config client.properties --junit conform.xml
  kwire conform localhost:9092 --allow known.txt -o json > report.json
  kwire conform --log /var/lib/kafka/metadata/__cluster_metadata-0
  kwire conform --list --api Metadata
  kwire conform --explain api-versions.too-new
  kwire conform --client --expect-records -- my-consumer {bootstrap} {topic}

\b
Exit status: 0 every rule is kept; 1 a rule is not, or a request was not answered in time;
2 the server or program could not be tried; 130 interrupted, what was made is removed.""",
)
@click.argument("words", nargs=-1, metavar="[HOST:PORT | -- COMMAND]", type=click.UNPROCESSED)
@click.option("-b", "--bootstrap-server", "broker", metavar="HOST:PORT", type=parse_address,
    help="The same as the argument.")  # fmt: skip
@click.option("--bootstrap-controller", "controller", metavar="HOST:PORT", type=parse_address,
    help="The same; a controller is recognized by the APIs that it offers.")  # fmt: skip
@click.option("--log", "log_dir", metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Check the metadata log in this directory, or the one below it, without any server.")  # fmt: skip
@command_config
@click.option("--rule", "patterns", multiple=True, metavar="ID",
    help="Run only this rule; also a family, or a pattern with *. May be repeated.")  # fmt: skip
@click.option("--api", "apis", multiple=True, metavar="NAME|KEY",
    help="Run only rules of this API, such as Fetch or 1. May be repeated.")  # fmt: skip
@click.option("--as-of", metavar="RELEASE",
    help="Run only rules that Kafka kept in this release already, such as 4.1.")  # fmt: skip
@click.option("--allow", "allow", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules that are known to fail: one a line, an id and a reason. One that passes is an "
    "error.")  # fmt: skip
@click.option("--destructive", is_flag=True,
    help="Run also rules that change more than names of their own.")  # fmt: skip
@click.option("--client", "is_client", is_flag=True,
    help="Grade the program COMMAND, which is started for each rule with {bootstrap}, {topic} and "
    "{group} replaced.")  # fmt: skip
@click.option("--topic", default="kwire-conform", show_default=True, metavar="NAME",
    help="With --client: the topic that the program reads or writes.")  # fmt: skip
@click.option("--expect-records", is_flag=True,
    help="With --client: the program prints the value of each record, in any form and once.")  # fmt: skip
@click.option("--timeout", metavar="SECONDS", type=parse_seconds,
    help="How long one rule may take.  [default: 10; 25 with --client]")  # fmt: skip
@click.option("--workers", metavar="N", type=click.IntRange(1, 64),
    help="Rules that run at the same time.  [default: 8; 4 with --client]")  # fmt: skip
@click.option("--list", "list_rules", is_flag=True, help="List the rules, and ask no server.")
@click.option("--explain", metavar="ID", help="Print everything about one rule.")
@click.option("-o", "--output", type=click.Choice(_FORMS), default="text", show_default=True,
    help="The form of the report on standard output.")  # fmt: skip
@click.option("--json", "json_file", metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as JSON to this file, too.")  # fmt: skip
@click.option("--junit", "junit_file", metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as JUnit XML to this file, too.")  # fmt: skip
@click.option("--html", "html_file", metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as one HTML file, too.")  # fmt: skip
def command(
    words: Sequence[str],
    broker: Address | None,
    controller: Address | None,
    list_rules: bool,
    explain: str | None,
    log_dir: Path | None,
    output: str,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    **how: Any,
) -> None:
    """Check a Kafka server or client, of any make, or a metadata log, against the rules.

    Each rule sends requests on connections of its own and judges what comes back. Without
    --destructive nothing changes but topics and groups whose names begin with kwire-conform-, and
    these are deleted again.
    """
    wanted = ConformOptions(**how)
    if explain is not None:
        click.echo(_explain(explain), nl=False)
        return
    rules = _select(wanted)
    if list_rules:
        from kwire.conformance.output.text import rule_list

        click.echo(rule_list(rules), nl=False)
        return
    files = {"json": json_file, "junit": junit_file, "html": html_file}
    for file in files.values():
        if file is not None and not file.absolute().parent.is_dir():
            raise click.UsageError(f"{file}: there is no such directory")
    if wanted.is_client:
        report = _grade(words, rules, wanted)
    elif log_dir is not None and not (words or broker or controller):
        report = _check(log_dir)
    else:
        report = _run(_address(words, broker, controller, log_dir), rules, wanted)
    for form, file in files.items():
        if file is not None:
            file.write_text(_formed(report, form), encoding="utf-8")
    click.echo(_formed(report, output), nl=False)
    sys.exit(_INTERRUPTED if report.interrupted else report.exit_status())


@dataclass(frozen=True)
class ConformOptions:
    """The options of a run."""

    config: Path | None
    patterns: Sequence[str]
    apis: Sequence[str]
    as_of: str | None
    allow: Path | None
    destructive: bool
    is_client: bool
    topic: str
    expect_records: bool
    timeout: float | None
    workers: int | None


def _explain(rule_id: str) -> str:
    import difflib

    from kwire.conformance.catalog import all_rules, client_rules, find_rule
    from kwire.conformance.output.text import rule_text

    rule = find_rule(rule_id)
    if rule is None:
        near = difflib.get_close_matches(
            rule_id, [rule.id for rule in (*all_rules(), *client_rules())], n=1
        )
        hint = f"; did you mean {near[0]}?" if near else ""
        raise click.UsageError(f"there is no rule {rule_id}{hint}")
    return rule_text(rule)


def _select(wanted: ConformOptions) -> list[Rule]:
    from kwire.conformance.catalog import all_rules, client_rules, select
    from kwire.protocol import ApiKey

    titles = {api.title.lower(): api for api in ApiKey} | {str(int(api)): api for api in ApiKey}
    unknown = [name for name in wanted.apis if name.lower() not in titles]
    if unknown:
        raise click.UsageError(
            f"no API is called {unknown[0]}; names are like Fetch, numbers like 1"
        )
    try:
        rules = select(
            client_rules() if wanted.is_client else all_rules(),
            patterns=wanted.patterns,
            apis=[titles[name.lower()] for name in wanted.apis],
            as_of=wanted.as_of,
        )
    except ValueError:
        raise click.UsageError(f"--as-of {wanted.as_of} is no release such as 4.1") from None
    if not rules:
        raise click.UsageError("no rule is selected: kwire conform --list shows them")
    return rules


def _address(
    words: Sequence[str], broker: Address | None, controller: Address | None, log: Path | None
) -> Address:
    """Return the address of the server. Raises click.UsageError unless exactly one address and no
    log is given.
    """
    given = [*map(parse_address, words), *(one for one in (broker, controller) if one is not None)]
    if len(given) != 1 or log is not None:
        raise click.UsageError("give one server, HOST:PORT, or --log DIR, or --client -- COMMAND")
    return given[0]


def _grade(words: Sequence[str], rules: Sequence[Rule], wanted: ConformOptions) -> Report:
    from gateway.cli.conform_client import DEFAULT_TIMEOUT_S, DEFAULT_WORKERS, grade

    return grade(
        words,
        rules,
        timeout_s=wanted.timeout or DEFAULT_TIMEOUT_S,
        workers=wanted.workers or DEFAULT_WORKERS,
        allowed=_allowed(wanted.allow, is_client=True),
        topic=wanted.topic,
        expects_records=wanted.expect_records,
    )


def _run(address: Address, rules: Sequence[Rule], wanted: ConformOptions) -> Report:
    from gateway.base.c_heap import return_large_blocks
    from gateway.cli.conform_connect import target_of
    from gateway.cli.conform_progress import progress
    from kwire.conformance.opening import open_session
    from kwire.conformance.runner import Options, run_rules
    from kwire.conformance.session import CannotConnect

    security = client_security(wanted.config)
    return_large_blocks()
    try:
        session = open_session(target_of(address, security), wanted.timeout or _TIMEOUT_S)
    except CannotConnect as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    options = Options(wanted.workers or _WORKERS, wanted.destructive, _allowed(wanted.allow))
    rules = [rule for rule in rules if rule.family != "log"]
    with progress(len(rules)) as told:
        report = run_rules(session, rules, options, told)
    config = "" if wanted.config is None else f" --command-config {wanted.config}"
    report.command = f"kwire conform {address}{config}"
    return report


def _check(directory: Path) -> Report:
    from gateway.cli.conform_progress import byte_progress
    from kwire.conformance.log.check import check_log
    from kwire.conformance.log.layout import NoLog

    try:
        with byte_progress() as told:
            return check_log(directory, told)
    except NoLog as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def _allowed(file: Path | None, *, is_client: bool = False) -> dict[str, str]:
    """Return rule ids and reasons from the file of ``--allow``. Raises click.ClickException."""
    from kwire.conformance.catalog import all_rules, client_rules
    from kwire.conformance.known_failures import read_known_failures

    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
        rules = client_rules() if is_client else all_rules()
        return read_known_failures(text, {rule.id for rule in rules})
    except ValueError as error:
        raise click.ClickException(f"{file}, {error}") from None


def _formed(report: Report, form: str) -> str:
    if form == "json":
        from kwire.conformance.output.as_json import report_json
        from kwire.printable import json_text

        return json_text(report_json(report), indent=1) + "\n"
    if form == "junit":
        from kwire.conformance.output.junit import report_junit

        return report_junit(report)
    if form == "html":
        from kwire.conformance.output.html import report_html

        return report_html(report)
    from kwire.conformance.output.text import report_text

    return report_text(report)
