"""Checks and types the options of ``format("kwire")``. It knows neither Spark nor a server: text
in, settings out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from kwire.spark.entities import ENTITIES, record_types_of
from kwire.spark.options import METADATA_TOPIC
from kwire.spark.record_types import type_prefix
from kwire.spark.source.security import NAMES as KAFKAS_OWN
from kwire.spark.source.security import translated
from kwire.spark.words import or_guess

#: Columns that ``keep`` may name, and those of them that only files have.
KEPT: Final = ("value", "file")
Files = Literal["segments", "snapshots", "all"]

#: Options that are passed to kafka-python under its names; Kafka's names with dots are accepted
#: too.
_TEXTS: Final = frozenset(
    (
        "client_id",
        "security_protocol",
        "sasl_kerberos_domain_name",
        "sasl_kerberos_name",
        "sasl_kerberos_service_name",
        "sasl_mechanism",
        "sasl_plain_password",
        "sasl_plain_username",
        "ssl_cafile",
        "ssl_certfile",
        "ssl_ciphers",
        "ssl_crlfile",
        "ssl_keyfile",
        "ssl_password",
    )
)
_NUMBERS: Final = frozenset(["bootstrap_timeout_ms", "request_timeout_ms"])
_FETCH_NUMBERS: Final = frozenset(["fetch_max_bytes", "max_partition_fetch_bytes"])
_FLAGS: Final = frozenset(["ssl_check_hostname"])
_CLIENTS: Final = _TEXTS | _NUMBERS | _FETCH_NUMBERS | _FLAGS

_FOR_BOTH: Final = ("entities", "excludeRecordTypes", "keep", "mode", "recordTypes", "secrets")
_FOR_FILES: Final = ("files", "path", "paths")
_FOR_SERVERS: Final = (
    "bootstrap.servers",
    "endingOffsets",
    "endingTimestamp",
    "failOnDataLoss",
    "kafka.bootstrap.servers",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "pollTimeoutMs",
    "startingOffsets",
    "startingTimestamp",
)
_KNOWN: Final = {name.lower(): name for name in (*_FOR_BOTH, *_FOR_FILES, *_FOR_SERVERS)}


@dataclass(frozen=True)
class Place:
    """Where to begin or end: an offset, a time in ms since the epoch, or neither: in that case
    ``name`` is earliest or latest.
    """

    name: str = ""
    offset: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Settings:
    """Every option with its value. Exactly one of ``bootstrap`` and ``paths`` is set."""

    bootstrap: str = ""
    paths: tuple[str, ...] = ()
    files: Files = "segments"
    start: Place | None = None
    end: Place | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int = 1
    poll_timeout_ms: int = 120_000
    fail_on_data_loss: bool = True
    only: tuple[bytes, ...] | None = None  #: first bytes of the values wanted
    without: tuple[bytes, ...] = ()  #: first bytes of the values not wanted
    keep: tuple[str, ...] = ()
    fail_fast: bool = False
    secrets: bool = False
    client: dict[str, str | int | bool] = field(default_factory=dict)  #: how kafka-python connects
    fetch: dict[str, int] = field(default_factory=dict)  #: bytes of an answer


def settings_of(options: Mapping[str, str]) -> Settings:
    """Return the settings of Spark's ``options`` (names in any case). Raises ValueError, which says
    what is valid.
    """
    given = {name.lower(): value for name, value in options.items()}
    _check_names(given)
    given = translated(given)
    get = given.get
    paths = _paths(given)
    bootstrap = get("bootstrap.servers") or get("kafka.bootstrap.servers") or ""
    if bool(paths) == bool(bootstrap):
        raise ValueError(
            "give either bootstrap.servers, to read from a server, or path, to read files"
        )
    keep, types, excluded, entities = (
        _list(given, n) for n in ("keep", "recordtypes", "excluderecordtypes", "entities")
    )
    for name in keep:
        if name not in KEPT or keep.count(name) > 1 or (name == "file" and bootstrap):
            raise ValueError(
                f"keep names columns among {', '.join(KEPT)} (file with path only), each once, not"
                f" {name!r}"
            )
    client, fetch = _client(given)
    return Settings(
        bootstrap=bootstrap,
        paths=paths,
        files=cast(Files, _one_of(given, "files", "segments", "snapshots", "all")),
        start=_place(given, "starting", ("earliest", "latest")),
        end=_place(given, "ending", ("latest",)),
        max_offsets_per_trigger=_number(given, "maxoffsetspertrigger", 1),
        min_partitions=_number(given, "minpartitions", 1) or 1,
        poll_timeout_ms=_number(given, "polltimeoutms", 1) or Settings.poll_timeout_ms,
        fail_on_data_loss=_flag(given, "failondataloss", True),
        only=_prefixes(types, entities),
        without=tuple(map(type_prefix, excluded)),
        keep=keep,
        fail_fast=_one_of(given, "mode", "PERMISSIVE", "FAILFAST") == "FAILFAST",
        secrets=_flag(given, "secrets", False),
        client=client,
        fetch=fetch,
    )


def check_names(taker: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise ValueError for a name that is neither in ``known``, in any case, nor begins with
    ``kafka.``, as the options of the client do. ``taker`` takes the options.
    """
    plain = {one.lower() for one in known}
    for name in names:
        if name.lower() not in plain and not name.startswith("kafka."):
            raise ValueError(f"{taker} has no option {name!r}{or_guess(name, known)}")


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name not in (*_KNOWN, *KAFKAS_OWN) and not (
            name.startswith("kafka.") and _plain(name) in _CLIENTS
        ):
            ours = (*_KNOWN.values(), *(f"kafka.{one}" for one in sorted(_CLIENTS)), *KAFKAS_OWN)
            raise ValueError(f"kwire has no option {name!r}{or_guess(name, ours)}")
    misplaced = [_KNOWN[name] for name in given if _KNOWN.get(name) in _FOR_SERVERS]
    if _paths(given) and misplaced:
        raise ValueError(f"{', '.join(misplaced)} cannot go with path: it is for a server")
    if "files" in given and not _paths(given):
        raise ValueError("files goes with path, not with a server")


def _plain(name: str) -> str:
    return name.removeprefix("kafka.").replace(".", "_")


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = json.loads(given["paths"]) if given.get("paths") else []
    return tuple(path for path in (given.get("path", ""), *several) if path)


def _client(given: Mapping[str, str]) -> tuple[dict[str, str | int | bool], dict[str, int]]:
    client: dict[str, str | int | bool] = {}
    fetch: dict[str, int] = {}
    for name, value in given.items():
        plain = _plain(name)
        if not name.startswith("kafka.") or plain == "bootstrap_servers":
            continue
        if plain in _FETCH_NUMBERS:
            fetch[plain] = _number(given, name, 1) or 1
        elif plain in _NUMBERS:
            client[plain] = _number(given, name, 1) or 1
        else:
            client[plain] = _flag(given, name, True) if plain in _FLAGS else value
    _check_login(client)
    return client, fetch


def _check_login(client: Mapping[str, object]) -> None:
    """Raise ValueError for SASL without a user, which a server would refuse half a minute later."""
    mechanism = str(client.get("sasl_mechanism", "")).upper()
    if not str(client.get("security_protocol", "")).upper().startswith("SASL_"):
        return
    if not mechanism:
        raise ValueError(
            "kafka.security.protocol asks for SASL: give kafka.sasl.mechanism, such as"
            " SCRAM-SHA-256, too"
        )
    login = client.keys() & {"sasl_plain_username", "sasl_plain_password"}
    if mechanism.startswith(("PLAIN", "SCRAM")) and len(login) < 2:
        raise ValueError(
            f"kafka.sasl.mechanism is {mechanism}: give the user too, as kafka.sasl.jaas.config or"
            " as kafka.sasl_plain_username and kafka.sasl_plain_password"
        )


def _place(given: Mapping[str, str], side: str, names: tuple[str, ...]) -> Place | None:
    at, since = given.get(f"{side}offsets"), _number(given, f"{side}timestamp", 0)
    if at is not None and since is not None:
        raise ValueError(f"give {side}Offsets or {side}Timestamp, not both")
    if since is not None:
        return Place(timestamp_ms=since)
    if at is None:
        return None
    offset = _offset(at)
    if offset in names:
        return Place(name=offset)
    if not (offset.isascii() and offset.isdigit()):
        raise ValueError(f"{side}Offsets is {', '.join(names)} or an offset from 0, not {at!r}")
    return Place(offset=int(offset))


def _prefixes(types: tuple[str, ...], entities: tuple[str, ...]) -> tuple[bytes, ...] | None:
    """Return the first bytes of the records of one of ``types`` and one of ``entities``; None: of
    all records.
    """
    for one in entities:
        if one not in ENTITIES:
            raise ValueError(f"entities are {', '.join(ENTITIES)}, not {one!r}")
    about = {type_prefix(name) for entity in entities for name in record_types_of(entity)}
    wanted = tuple(map(type_prefix, types)) if types else tuple(sorted(about))
    return (
        tuple(one for one in wanted if not entities or one in about) if types or entities else None
    )


def _offset(text: str) -> str:
    """The number or name in ``text``, which may be JSON as Spark's own source has it:
    ``{"__cluster_metadata": {"0": 17}}``.
    """
    if not text.lstrip().startswith("{"):
        return text.lower()
    try:
        number = str(json.loads(text)[METADATA_TOPIC]["0"])
    except (ValueError, KeyError, TypeError):
        return ""
    return {"-2": "earliest", "-1": "latest"}.get(number, number)


def _list(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.get(name, "").split(",") if part.strip())


def _one_of(given: Mapping[str, str], name: str, *values: str) -> str:
    value = given.get(name, values[0])
    for one in values:
        if one.lower() == value.lower():
            return one
    raise ValueError(f"{_KNOWN[name]} is {' or '.join(values)}, not {value!r}")


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise ValueError(f"{_KNOWN.get(name, name)} is true or false, not {value!r}")
    return value == "true"


def _number(given: Mapping[str, str], name: str, least: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) >= least):
        raise ValueError(f"{_KNOWN.get(name, name)} is a number from {least}, not {value!r}")
    return int(value)
