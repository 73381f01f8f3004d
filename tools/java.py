"""Runs Kafka's Java programs by class name, on a class path from Maven. Needs ``java`` and
``mvn``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kwire.jars.maven import MavenError, cache_dir, resolve

KAFKA_VERSION = "4.3.1"
#: Releases whose server is in Maven's repository and whose tools are not: those of the release
#: before talk to it.
_TOOLS_VERSIONS = {"4.4.0": "4.3.1"}
_TOOLS_PACKAGE = "org.apache.kafka.tools."

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
STORAGE = "kafka.tools.StorageTool"
SERVER = "kafka.Kafka"

#: slf4j's simple logger: Kafka's own jars bring no binding, and without one a broker that fails
#: says nothing.
_LOGGER = "org.slf4j:slf4j-simple:1.7.36"
#: The binding that releases before 4.0 bring: it would win, and print nothing.
_OTHER_LOGGER = "slf4j-reload4j-"
_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
)
#: A tool that lives for seconds is not worth the second compiler.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC")


class JavaError(Exception):
    """Java is missing, or a Java program failed; the text holds its output."""


def java() -> str:
    """Return the ``java`` to run: of JAVA_HOME, else of the PATH. Raises JavaError."""
    if home := os.environ.get("JAVA_HOME"):
        candidate = Path(home) / "bin" / "java"
        if candidate.exists():
            return str(candidate)
    found = shutil.which("java")
    if found is None:
        raise JavaError(
            "java is not on the PATH and JAVA_HOME is not set: install a JRE of 17 or newer"
        )
    return found


def class_path(version: str = KAFKA_VERSION) -> list[Path]:
    """Return the jars of a Kafka broker, with its command line tools if that release has them.
    Raises JavaError.
    """
    tools = _TOOLS_VERSIONS.get(version, version)
    # Without the tools the server still asks for their interfaces, which are as missing: it can do
    # with older ones.
    name = "kafka-tools" if tools == version else "kafka-tools-api"
    try:
        found = resolve(
            [f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:{name}:{tools}", _LOGGER],
            transitive=True,
        )
    except MavenError as error:
        raise JavaError(str(error)) from error
    return [jar for jar in found if not jar.name.startswith(_OTHER_LOGGER)]


def class_archive(version: str = KAFKA_VERSION) -> Path:
    """Return where the classes of a release are archived for this Java, once
    ``tools.class_archive`` has made the archive.
    """
    return _class_archive(class_path(version))


def _class_archive(jars: Sequence[Path]) -> Path:
    program = Path(java()).resolve()
    names = [str(program), str(program.stat().st_mtime_ns), *map(str, jars)]
    return cache_dir() / "classes" / f"{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}.jsa"


def tool_version(main_class: str, version: str) -> str:
    """The release whose ``main_class`` is run for ``version``."""
    if main_class.startswith(_TOOLS_PACKAGE):
        return _TOOLS_VERSIONS.get(version, version)
    return version


def command(
    main_class: str,
    arguments: Sequence[str] = (),
    *,
    version: str = KAFKA_VERSION,
    options: Sequence[str] = QUICK_START,
    log_level: str = "warn",
    more_jars: Sequence[Path] = (),
) -> list[str]:
    """The command line that runs ``main_class`` of Kafka ``version``; its log goes to standard
    error.

    A tool that the release lacks is taken from the release before. ``more_jars`` are behind those
    of the release: archived classes need them in front.
    """
    version = tool_version(main_class, version)
    jars = class_path(version)
    level = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    archive = _class_archive(jars)
    if archive.exists():
        # Java ignores an archive that does not fit its classes. The log of the archive is off,
        # because it would mix with the output that a caller reads.
        options = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", *options]
    return [
        java(),
        *options,
        *_LOG_OPTIONS,
        level,
        "-cp",
        os.pathsep.join(map(str, (*jars, *more_jars))),
        main_class,
        *arguments,
    ]
