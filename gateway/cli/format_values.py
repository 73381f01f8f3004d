"""Parses the values of ``kwire format``'s options: voters, features and first users. It writes
nothing.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from gateway.base.address import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
    from kwire.uuid import Uuid


def split_voter(text: str, form: str) -> tuple[int, str]:
    """Split ``ID@REST``, of the form that ``form`` names. Raises ValueError."""
    id, at, rest = text.partition("@")
    if not (at and ":" in rest and id.isascii() and id.isdigit() and int(id) < 1 << 31):
        raise ValueError(f"{text!r} is not of the form {form}")
    return int(id), rest


def parse_controllers(text: str) -> list[tuple[int, Address, Uuid]]:
    """Parse ``ID@HOST:PORT:DIRECTORYID,...`` (``DynamicVoters.parse``). Raises BadParameter."""
    from gateway.base.address import parse_address
    from kwire.uuid import Uuid

    found: dict[int, tuple[int, Address, Uuid]] = {}
    for part in (one.strip() for one in text.split(",")):
        try:
            id, rest = split_voter(part, "ID@HOST:PORT:DIRECTORYID")
            place, _, directory = rest.rpartition(":")
            if id in found:
                raise ValueError(f"controller {id} is there twice")
            found[id] = id, parse_address(place), Uuid.parse(directory)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return list(found.values())


def parse_feature(text: str) -> tuple[str, int]:
    """Parse ``NAME=LEVEL``. Raises click.BadParameter."""
    name, equals, level = text.partition("=")
    if not (name and equals and level.isascii() and level.isdigit() and len(level) < 6):
        raise click.BadParameter(f"{text!r} is not of the form NAME=LEVEL")
    return name, int(level)


def parse_scram(texts: Sequence[str]) -> tuple[UserScramCredentialRecord, ...]:
    """Parse all ``--add-scram``. Raises click.BadParameter."""
    if not texts:
        return ()
    from gateway.security.scram_credentials import parse_credentials

    try:
        return parse_credentials(texts, secrets.token_bytes)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
