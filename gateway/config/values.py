"""Defines keys of the configuration, the types of their values, and a parser for each type.

The keys themselves are in ``gateway.config.config``.
"""

from __future__ import annotations

import enum
import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from gateway.base.address import Address, check_host, parse_address, shown
from gateway.base.java.text import parse_boolean, parse_integer, trim
from gateway.base.migration_policy import MigrationPolicy
from gateway.base.sizes import MIB

ENVIRONMENT_PREFIX: Final = "KWIRE_"
#: A listener's own limit: this key behind ``listener.name.NAME.``, for any security protocol.
LISTENER_MAX_CONNECTIONS: Final = "max.connections"
_INT_MAX: Final = 2**31 - 1
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

#: Of the names of Kafka's classes of assignors, the text before the name alone.
_ASSIGNOR_CLASSES: Final = "org.apache.kafka.coordinator.group.assignor."

_LISTENER: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9a-fA-F:.]*\]|[^:\[\]/]*):(?P<port>[0-9]{1,5})"
)


#: Longest properties file. It may hold certificates; a device such as /dev/zero never ends.
_FILE_BYTES_MAX: Final = 16 * MIB


def read_properties_text(path: Path, encoding: str) -> str:
    """The text of a properties file. Raises OSError, and UnicodeDecodeError for bytes that are not
    of ``encoding``.
    """
    with path.open("rb") as file:
        data = file.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        raise OSError(
            errno.EFBIG,
            f"more than {_FILE_BYTES_MAX} bytes, which no properties file has",
            str(path),
        )
    return data.decode(encoding)


class Assignor(enum.StrEnum):
    """An assignor of consumer groups (``gateway.groups.consumer.assignors``)."""

    UNIFORM = "uniform"
    RANGE = "range"


class ConfigError(Exception):
    """The configuration cannot be used. ``problems``: one sentence each, naming the key."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Key:
    """One key: ``name`` with dots, its attribute of Config, the parser of its text, its help."""

    name: str
    attribute: str
    parse: Callable[[str], Any]
    help: str
    unit: str
    default: Any
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


class SourceKind(enum.StrEnum):
    """The kinds of ``source``. The value is the name in the ready line and in metrics."""

    CONTROLLER = "own"  #: a node of its own KRaft quorum
    OBSERVER = "quorum"  #: follows another quorum
    LOG = "log"  #: follows a log directory of Kafka
    SAMPLE = "sample"  #: serves the log in the package

    @property
    def has_quorum(self) -> bool:
        """True where a quorum stands behind the partition: there are users, ACLs and a leader."""
        return self in (SourceKind.CONTROLLER, SourceKind.OBSERVER)


#: The values of ``replica.selector.class``. With the first, as without one, consumers are not sent
#: to followers.
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
#: Texts of ``source`` and what they select. ``own`` and ``quorum`` are the older names.
SOURCE_NAMES: Final = {
    "controller": SourceKind.CONTROLLER,
    "observer": SourceKind.OBSERVER,
    "log": SourceKind.LOG,
    "sample": SourceKind.SAMPLE,
    "own": SourceKind.CONTROLLER,
    "quorum": SourceKind.OBSERVER,
}


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of ``listeners``: name, host ("" for every address), port (0 picks one)."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def _parse_int(text: str) -> int:
    try:
        return parse_integer(text, 64)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _parse_bool(text: str) -> bool:
    try:
        return parse_boolean(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def _parts(text: str) -> list[str]:
    """The elements of a list that are not empty."""
    return [part for one in text.split(",") if (part := trim(one))]


def _parse_path(text: str) -> Path:
    if not text:
        raise ValueError("is empty")
    return Path(text)


def _parse_paths(text: str) -> tuple[Path, ...]:
    path = _parse_path(text)
    # The path of a log to serve may have a comma in it.
    if "," not in text or path.exists():
        return (path,)
    return tuple(map(Path, _parts(text)))


def _parse_listeners(text: str) -> tuple[Listener, ...]:
    return tuple(map(_parse_listener, _parts(text)))


def _parse_listener(text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)} is not of the form NAME://HOST:PORT")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"{text!r}: there is no port {port}")
    host = match["host"]
    if host and not host.startswith("["):
        check_host(host)
    return Listener(match["name"].upper(), host.strip("[]"), port)


def _parse_addresses(text: str) -> tuple[Address, ...]:
    return tuple(map(parse_address, _parts(text)))


def _parse_voters(text: str) -> dict[int, Address]:
    voters = {}
    for part in text.split(","):
        id, at, address = trim(part).partition("@")
        if not at or not re.fullmatch(r"[0-9]{1,10}", id) or int(id) > _INT_MAX:
            raise ValueError(f"{trim(part)!r} is not of the form ID@HOST:PORT")
        if int(id) in voters:
            raise ValueError(f"voter {int(id)} is there twice")
        voters[int(id)] = parse_address(address)
    return voters


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(part.upper() for part in _parts(text))
    if not names:
        raise ValueError("is empty")
    return names


def _parse_migration_policy(text: str) -> MigrationPolicy:
    """Read the policy in upper or lower case, as Kafka."""
    if text.lower() not in list(MigrationPolicy):
        raise ValueError(f"{text!r} is none of {', '.join(MigrationPolicy)}")
    return MigrationPolicy(text.lower())


def _parse_assignors(text: str) -> tuple[Assignor, ...]:
    names = [part.removeprefix(_ASSIGNOR_CLASSES) for part in _parts(text)]
    known = {one.value: one for one in Assignor} | {
        f"{one.value.capitalize()}Assignor": one for one in Assignor
    }
    if not names:
        raise ValueError("is empty")
    for name in names:
        if name not in known:
            raise ValueError(f"{name}: there are {', '.join(Assignor)}")
    found = tuple(known[name] for name in names)
    if len(set(found)) < len(found):
        raise ValueError("names an assignor twice")
    return found


def _parse_hosts(text: str) -> frozenset[str]:
    hosts = {part.lower() for part in _parts(text)}
    for host in hosts - {"*"}:
        check_host(host.removeprefix("."))
    return frozenset(hosts)


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _parse_protocol_map(text: str) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        name, colon, protocol = trim(part).partition(":")
        if not colon or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ValueError(
                f"{trim(part)!r} is not NAME:PROTOCOL with a protocol of "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        pairs[name.upper()] = protocol.upper()
    return pairs


def _parse_overrides(text: str) -> dict[str, int]:
    found = {}
    for part in _parts(text):
        address, _, text_of_most = part.rpartition(":")
        try:
            most = parse_integer(text_of_most, 32)
            found[str(ip_address(address.strip("[]")))] = most
        except ValueError:
            most = -1
        if most < 0:
            raise ValueError(f"{part!r} is not ADDRESS:NUMBER with the address of a client")
    return found


#: By the type that a field of Config is annotated with.
PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "int": _parse_int,
    "bool": _parse_bool,
    "str": str,
    "str | None": _parse_text,
    "Path | None": _parse_path,
    "tuple[Listener, ...]": _parse_listeners,
    "tuple[Address, ...]": _parse_addresses,
    "tuple[Path, ...]": _parse_paths,
    "tuple[str, ...]": _parse_names,
    "tuple[Assignor, ...]": _parse_assignors,
    "MigrationPolicy": _parse_migration_policy,
    "frozenset[str]": _parse_hosts,
    "Mapping[int, Address]": _parse_voters,
    "Mapping[str, str]": _parse_protocol_map,
    "Mapping[str, int]": _parse_overrides,
}
