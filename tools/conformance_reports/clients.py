"""Grades clients by the rules of ``kwire conform --client`` and writes
``docs/conformance-clients.md``.

Each runs as a consumer in a group and as an idempotent producer, both with SASL/PLAIN.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.conformance.catalog import client_rules
from kwire.conformance.client.opening import open_client
from kwire.conformance.client.program import Command
from kwire.conformance.outcome import Outcome, Report
from kwire.conformance.runner import Options, run_rules
from kwire.protocol import ApiKey
from tools import java
from tools.conformance_reports.causes import client_causes
from tools.other_servers import build

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs/conformance-clients.md"
_ABOUT: Final = (
    "This page has the results of `kwire conform --client` ([Conformance](conformance.md)) for"
    " clients in wide use, each as a consumer in a group and as an idempotent producer, both with"
    " SASL/PLAIN."
    " Rules that are not kept were broken as well with Kafka 4.3.1 behind a proxy that changes one"
    " answer, where that can show them. This command makes the page:"
)
_COUNTS: Final = (
    "There are {} rules; the consumer and the producer are counted together. *Advice* is a *should*"
    " that is not kept. Rules of APIs and versions that the program does not send are not"
    " applicable."
)
_TIMEOUT_S: Final = 25.0
_WORKERS: Final = 4
_SASL: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "kwire",
    "sasl.password": "kwire",
}
_JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="kwire" password="kwire";'
)


@dataclass(frozen=True)
class Client:
    """A client as a consumer in a group and as an idempotent producer, both with SASL/PLAIN."""

    name: str
    version: str
    consumer: Sequence[str]
    producer: Sequence[str]


def _java(directory: Path) -> Client:
    lines = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.jaas.config={_JAAS}",
    ]
    consumer, producer = directory / "consumer.properties", directory / "producer.properties"
    consumer.write_text("\n".join([*lines, "auto.offset.reset=earliest"]))
    producer.write_text("\n".join([*lines, "retries=2147483647", "batch.size=100"]))
    common = ["--bootstrap-server", "{bootstrap}", "--topic", "{topic}", "--command-config"]
    return Client(
        "java",
        java.KAFKA_VERSION,
        java.command(
            java.CONSOLE_CONSUMER,
            [*common, str(consumer), "--group", "{group}", "--from-beginning"],
        ),
        java.command(java.VERIFIABLE_PRODUCER, [*common, str(producer), "--max-messages", "30"]),
    )


def _python(library: str) -> Callable[[Path], Client]:
    program = [sys.executable, "-m", "tools.conformance_reports.client_programs", library]
    return lambda directory: _program(library, importlib.metadata.version(library), program, "sasl")


def _go(name: str, module: str, program: str) -> Callable[[Path], Client]:
    def made(directory: Path) -> Client:
        words = [str(build.go_program(program, directory))]
        return _program(name, build.go_version(module), words)

    return made


def _kafkajs(directory: Path) -> Client:
    return _program(
        "kafkajs", build.node_version("kafkajs"), ["node", str(build.node_program(directory))]
    )


def _program(name: str, version: str, start: Sequence[str], *more: str) -> Client:
    def words(way: str) -> list[str]:
        return [*start, way, "{bootstrap}", "{topic}", "{group}", *more]

    return Client(name, version, words("consume"), words("produce"))


def _kcat(directory: Path) -> Client:
    values = directory / "values"
    values.write_text("".join(f"record {number:03}\n" for number in range(30)))
    sasl = [word for name, value in _SASL.items() for word in ("-X", f"{name}={value}")]
    common = ["kcat", "-E", "-b", "{bootstrap}", *sasl]
    shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+).*librdkafka (\S+)", shown)
    version = f"{found[1]}, librdkafka {found[2]}" if found else "?"
    reset = ["-X", "auto.offset.reset=earliest"]
    idempotent = ["-X", "enable.idempotence=true", "-X", "batch.num.messages=5"]
    return Client(
        "kcat",
        version,
        [*common, *reset, "-u", "-f", "%s\\n", "-G", "{group}", "{topic}"],
        [*common, *idempotent, "-P", "-t", "{topic}", "-l", str(values)],
    )


#: The clients of the page, in its order. Each function takes a directory for files.
CLIENTS: Final[Mapping[str, Callable[[Path], Client]]] = {
    "java": _java,
    **{name: _python(name) for name in ("confluent-kafka", "kafka-python", "aiokafka")},
    "franz-go": _go("franz-go", build.FRANZ_GO, "franz"),
    "sarama": _go("sarama", build.SARAMA, "sarama"),
    "kafkajs": _kafkajs,
    "kcat": _kcat,
}


def grade(words: Sequence[str], *, reads: bool) -> Report:
    """Run every rule with a program. Raises CannotConnect."""
    session = open_client(Command(words), _TIMEOUT_S, expects_records=reads)
    return run_rules(session, client_rules(), Options(_WORKERS))


def _versions(reports: Sequence[Report]) -> str:
    found: dict[int, int] = {}
    for report in reports:
        for api, (_, high) in report.offered.items():
            found[api] = max(high, found.get(api, 0))
    return ", ".join(f"{ApiKey(api).title} {found[api]}" for api in sorted(found))


def _not_kept(client: Client, reports: Sequence[Report]) -> dict[str, Outcome]:
    return {
        result.rule.id: result.outcome
        for report in reports
        for result in report.results
        if result.outcome in (Outcome.FAIL, Outcome.ADVICE, Outcome.ERROR, Outcome.TIMEOUT)
    }


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def page(graded: Mapping[str, tuple[Client, Sequence[Report]]]) -> tuple[str, list[str]]:
    """Return the page and a line for each rule that is not kept and not explained."""
    lines = ["# Cards of clients", "", *_wrapped(_ABOUT), "", "```bash"]
    lines += ["python -m tools.conformance_reports clients", "```", ""]
    lines += ["| Client | Version | Rules kept | Advice | Not kept | Not applicable |"]
    lines += ["|---|---|---|---|---|---|"]
    for client, reports in graded.values():
        cells = [
            str(sum(report.counts()[outcome] for report in reports))
            for outcome in (Outcome.PASS, Outcome.ADVICE, Outcome.FAIL, Outcome.NOT_APPLICABLE)
        ]
        lines.append(f"| {client.name} | {client.version} | {' | '.join(cells)} |")
    lines += ["", *_wrapped(_COUNTS.format(len(client_rules())))]
    causes, unexplained = client_causes(), []
    for client, reports in graded.values():
        lines += ["", f"## {client.name}", "", *_wrapped(f"Sends {_versions(reports)}."), ""]
        found = _not_kept(client, reports)
        if not found:
            lines.append("It keeps every rule.")
            continue
        lines += ["| Rule | Outcome | Why |", "|---|---|---|"]
        for rule, outcome in sorted(found.items()):
            why = causes.get((client.name, rule))
            if why is None:
                unexplained.append(f"{client.name}: {rule}: {outcome.value}")
            lines.append(f"| `{rule}` | {outcome.value} | {why or 'not explained'} |")
    return "\n".join(lines) + "\n", unexplained


def main(names: Sequence[str]) -> int:
    """Grade the clients, and write the page if no name was given. Returns the exit status."""
    graded = {}
    with tempfile.TemporaryDirectory(prefix="client-cards-") as directory:
        for name in names or CLIENTS:
            client = CLIENTS[name](Path(directory))
            print(f"{name} ...", file=sys.stderr, flush=True)
            reports = (grade(client.consumer, reads=True), grade(client.producer, reads=False))
            graded[client.name] = client, reports
            for report in reports:
                for result in report.to_show():
                    print(f"  {result.rule.id}: {result.sentence}", file=sys.stderr)
    text, unexplained = page(graded)
    if names:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")
    for line in unexplained:
        print(line, file=sys.stderr)
    return 1 if unexplained else 0
