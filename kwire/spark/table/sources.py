"""Names the sources of tables of several clusters: servers and log directories. It opens none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from kwire.spark.source.options import Settings, check_names, settings_of
from kwire.spark.table.places import NAME

#: One source as a caller gives it: ``host:port,...``, a log directory, or options of
#: ``format("kwire")`` with one of these, and ``name`` if the cluster has one.
Given = str | Mapping[str, str]

#: A server that does not answer within these times (ms) keeps only its own tables waiting.
_CLIENT: Final = {"bootstrap_timeout_ms": 5_000, "request_timeout_ms": 10_000}
_POLL_MS: Final = 10_000
_OPTIONS: Final = ("bootstrap.servers", "kafka.bootstrap.servers", "path", "pollTimeoutMs")


@dataclass(frozen=True)
class Source:
    """A source, and the name that its cluster has in the tables; without one it is the cluster's
    id.
    """

    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The servers or the directory, without secrets."""
        get = self.options.get
        return get("bootstrap.servers") or get("kafka.bootstrap.servers") or get("path") or ""

    @property
    def key(self) -> str:
        """The text that tells it from the other sources."""
        return self.name or self.address

    @property
    def directory(self) -> str | None:
        """The directory with a copy of a log, None for a server."""
        return self.options.get("path")

    @cached_property
    def settings(self) -> Settings:
        """The options, checked, with time limits. Raises ValueError."""
        found = settings_of(self.options)
        is_given = any(name.lower() == "polltimeoutms" for name in self.options)
        limit = found.poll_timeout_ms if is_given else _POLL_MS
        return replace(found, poll_timeout_ms=limit, client={**_CLIENT, **found.client})


def sources_of(given: Iterable[Given] | Mapping[str, Given]) -> list[Source]:
    """The sources in a list, or in a mapping of names to sources. Raises ValueError for one that
    will not do, for none, and for one that is there twice.
    """
    if isinstance(given, Mapping):
        found = [_source(one, name) for name, one in given.items()]
    else:
        found = [_source(one) for one in given]
    if not found:
        raise ValueError("the list of sources is empty: give servers or log directories")
    keys = [one.key for one in found]
    for one in found:
        if one.name is not None and not NAME.fullmatch(one.name):
            raise ValueError(
                f"a cluster is named by letters, digits, '-', '_' and '.', not {one.name!r}"
            )
        if keys.count(one.key) > 1:
            raise ValueError(f"the source {one.key} is there twice")
        if not one.address:
            raise ValueError(f"source {one.key!r} has neither bootstrap.servers nor path")
        _check_options(one)
    return found


def _check_options(source: Source) -> None:
    """Raise ValueError for an option that says what the tables decide, such as offsets."""
    check_names(f"the source {source.key}", source.options, _OPTIONS)
    if source.directory is None:
        _ = source.settings


def _source(given: Given, name: str | None = None) -> Source:
    if isinstance(given, str):
        return Source(name, {"path" if is_path(given) else "bootstrap.servers": given})
    options = dict(given)
    return Source(options.pop("name", name), options)


def is_path(text: str) -> bool:
    """True for a directory, also one that only executors see: an address has no slash."""
    return os.sep in text or os.path.isdir(text)
