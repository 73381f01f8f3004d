"""Commands for all of Kafka's administration tools, both valid and refused ones.

A test runs each command against two clusters in the same state. Replicas are assigned by hand,
because the controllers would place them at random.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TOOLS: Final = "org.apache.kafka.tools."
_CLASSES: Final = {
    "acls": f"{_TOOLS}AclCommand",
    "client-metrics": f"{_TOOLS}ClientMetricsCommand",
    "cluster": f"{_TOOLS}ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": f"{_TOOLS}consumer.group.ConsumerGroupCommand",
    "delegation-tokens": f"{_TOOLS}DelegationTokenCommand",
    "features": f"{_TOOLS}FeatureCommand",
    "groups": f"{_TOOLS}GroupsCommand",
    "leader-election": f"{_TOOLS}LeaderElectionCommand",
    "log-dirs": f"{_TOOLS}LogDirsCommand",
    "metadata-quorum": f"{_TOOLS}MetadataQuorumCommand",
    "reassign-partitions": f"{_TOOLS}reassign.ReassignPartitionsCommand",
    "topics": f"{_TOOLS}TopicCommand",
}
#: Patterns of output that differs between any two clusters, and their replacements.
_UNLIKE: Final = (
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "UUID"),
    (re.compile(r"127\.0\.0\.1[: ]+\d+"), "ADDRESS"),
    (re.compile(r"/\S*?/(10[12])/data\S*"), r"DIRECTORY-\1"),
    (re.compile(r"(Epoch: *|Local controller )\d+"), r"\1N"),
    (re.compile(r'("(?:size|offsetLag)": ?)\d+'), r"\1N"),
)
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True)
class Command:
    """One line; ``@name`` in its arguments stands for a file with one of :func:`files`."""

    tool: str
    arguments: tuple[str, ...]
    numbers: bool = True  #: are numbers compared?

    @property
    def main_class(self) -> str:
        """The Java class that runs it."""
        return _CLASSES[self.tool]

    def __str__(self) -> str:
        return f"kafka-{self.tool} {' '.join(self.arguments)}"

    def line(self, bootstrap: str) -> list[str]:
        """The arguments for a cluster."""
        where = ["--bootstrap-server", bootstrap]
        if self.tool == "cluster":  # alone in taking it behind its subcommand
            return [*self.arguments, *where]
        return [*where, *self.arguments]

    def comparable(self, said: str) -> list[str]:
        """The sorted lines of an output, without values that differ between clusters."""
        for unlike, instead in _UNLIKE:
            said = unlike.sub(instead, said)
        if not self.numbers:
            said = _NUMBER.sub("N", said)
        return sorted(" ".join(line.split()) for line in said.splitlines() if line.strip())


def files() -> dict[str, str]:
    """The texts that commands name ``@name``."""

    def plan(*replicas: Sequence[int]) -> str:
        moved = [
            {"topic": "orders", "partition": index, "replicas": list(one)}
            for index, one in enumerate(replicas)
        ]
        return json.dumps({"version": 1, "partitions": moved})

    elected = {"partitions": [{"topic": "orders", "partition": index} for index in range(3)]}
    return {
        "swapped": plan((102, 101), (101, 102), (102,)),
        "unknown": json.dumps(
            {"version": 1, "partitions": [{"topic": "nobody", "partition": 0, "replicas": [101]}]}
        ),
        "elected": json.dumps(elected),
    }


def _all(tool: str, *lines: str, numbers: bool = True) -> list[Command]:
    return [Command(tool, tuple(line.split()), numbers) for line in lines]


COMMANDS: Final = [
    *_all("cluster", "cluster-id", "list-endpoints", "unregister --id 999"),
    *_all(
        "topics",
        (
            "--create --topic orders --replica-assignment 101:102,102:101,101:102 --config "
            "retention.ms=86400000"
        ),
        "--create --topic orders",
        "--create --topic bad/name",
        "--create --topic many --partitions 1 --replication-factor 7",
        "--create --topic odd --config no.such.config=1",
        "--create --topic gone --replica-assignment 101",
        "--alter --topic gone --partitions 2 --replica-assignment 101,102",
        "--alter --topic gone --partitions 1",
        "--delete --topic gone",
        "--delete --topic gone",
        "--list",
        "--describe --topic orders",
    ),
    *_all(
        "configs",
        (
            "--alter --entity-type topics --entity-name orders --add-config "
            "cleanup.policy=compact,min.insync.replicas=2"
        ),
        "--alter --entity-type topics --entity-name orders --delete-config retention.ms",
        "--alter --entity-type topics --entity-name orders --add-config retention.ms=never",
        "--describe --entity-type topics --entity-name orders",
        "--alter --entity-type brokers --entity-name 101 --add-config log.cleaner.threads=2",
        "--alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000",
        "--describe --entity-type brokers --entity-name 101",
        "--describe --entity-type brokers --entity-default",
        (
            "--alter --entity-type users --entity-name alice --add-config "
            "producer_byte_rate=1024,consumer_byte_rate=2048"
        ),
        "--alter --entity-type clients --entity-default --add-config request_percentage=200",
        "--alter --entity-type ips --entity-name 10.0.0.7 --add-config connection_creation_rate=5",
        (
            "--alter --entity-type users --entity-name bob --add-config "
            "SCRAM-SHA-256=[iterations=4096,password=secret]"
        ),
        (
            "--alter --entity-type users --entity-name bob --add-config "
            "SCRAM-SHA-256=[iterations=7,password=secret]"
        ),
        "--describe --entity-type users",
        "--describe --entity-type clients --entity-default",
        "--alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-256",
        "--alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-256",
        "--describe --entity-type users --entity-name bob",
    ),
    *_all(
        "acls",
        "--add --allow-principal User:alice --operation Read --topic orders --group readers",
        (
            "--add --deny-principal User:eve --operation All --topic ord --resource-pattern-type "
            "prefixed"
        ),
        "--add --allow-principal User:admin --cluster --operation Alter",
        "--list",
        "--remove --force --allow-principal User:admin --cluster --operation Alter",
        "--list --topic orders",
    ),
    *_all(
        "features",
        "describe",
        "downgrade --feature transaction.version=1",
        "describe",
        "upgrade --feature transaction.version=2 --dry-run",
        "upgrade --feature transaction.version=2",
        "downgrade --feature metadata.version=1",
        "upgrade --feature no.such.feature=1",
    ),
    *_all(
        "client-metrics",
        "--alter --name watched --metrics org.apache.kafka. --interval 5000",
        "--describe",
        "--list",
    ),
    *_all(
        "reassign-partitions",
        "--execute --reassignment-json-file @swapped",
        "--verify --reassignment-json-file @swapped",
        "--execute --reassignment-json-file @unknown",
        "--list",
        numbers=True,
    ),
    *_all(
        "leader-election",
        "--election-type preferred --path-to-json-file @elected",
        "--election-type unclean --path-to-json-file @elected",
        "--election-type preferred --topic nobody --partition 0",
    ),
    *_all("topics", "--describe --topic orders"),
    *_all("log-dirs", "--describe --topic-list orders"),
    *_all("groups", "--list"),
    *_all("consumer-groups", "--list", "--describe --group nobody"),
    *_all("delegation-tokens", "--create --max-life-time-period -1", "--describe"),
    *_all("metadata-quorum", "describe --status", "describe --replication", numbers=False),
]
