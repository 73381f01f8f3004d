"""The stock clients of the interoperability tests, and skips or failures where one is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import uuid
from dataclasses import dataclass

import pytest

from tests.interop.commands import ConsoleConsumer, Kcat
from tests.interop.libraries import AioKafka, ConfluentKafka, KafkaPython
from tests.interop.reading import Reader
from tools import java

ASSIGN, GROUP = "assign", "group"


@dataclass(frozen=True)
class Way:
    """One client in one mode."""

    reader: type[Reader]
    mode: str

    def __str__(self) -> str:
        return f"{self.reader.client}-{self.mode}"

    def on(self, bootstrap: str, topic: str) -> Reader:
        """A reader of ``topic``, not started; in group mode in a group of its own."""
        group = f"{self.reader.client}-{uuid.uuid4().hex[:8]}" if self.mode == GROUP else None
        return self.reader(bootstrap, topic, group)


WAYS = [
    Way(reader, mode)
    for reader in (Kcat, ConsoleConsumer, ConfluentKafka, KafkaPython, AioKafka)
    for mode in (ASSIGN, GROUP)
]


def missing(what: str) -> None:
    """Skip, or fail with ``KWIRE_INTEROP=require``."""
    if os.environ.get("KWIRE_INTEROP") == "require":
        pytest.fail(f"{what}, and KWIRE_INTEROP=require asks for it")
    pytest.skip(what)


def need_clients() -> None:
    """Skip or fail unless every client of WAYS can run here."""
    if shutil.which("kcat") is None:
        missing("kcat is not on the PATH (Debian package kcat)")
    for module, package in (
        ("confluent_kafka", "confluent-kafka"),
        ("aiokafka", "aiokafka"),
        ("kafka", "kafka-python"),
    ):
        if importlib.util.find_spec(module) is None:
            missing(f"{package} is not installed (the extra 'test' has it)")
    need_java()


def need_java() -> None:
    """Skip or fail unless Kafka's Java programs can run here."""
    try:
        java.java()
        java.class_path()
    except java.JavaError as error:
        missing(f"Kafka's Java programs cannot run: {error}")
