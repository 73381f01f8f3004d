"""Turns errors of a metadata log into those of a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from kwire.metadata_log.errors import MetadataLogError


@contextlib.contextmanager
def state_errors() -> Iterator[None]:
    """Turn MetadataLogError into click.ClickException, with the option that ends before the
    fault.
    """
    try:
        yield
    except MetadataLogError as error:
        before = error.intact_before
        remedy = f"; --at {before} (or SOURCE@{before}) gives the state before it"
        raise click.ClickException(error.reason + (remedy if before is not None else "")) from None
