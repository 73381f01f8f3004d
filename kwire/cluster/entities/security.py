"""Describes ACLs, the SCRAM credentials of users, and delegation tokens (``AclsDelta``,
``ScramDelta``, ``DelegationTokenDelta``).

Salts and keys of users are secret. The records of tokens hold no HMAC.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kwire.cluster.entities.held import find_in, keys_of, records_of, remove_from, set_in
from kwire.cluster.field_types import INT32, INT64, STRING, TEXTS
from kwire.cluster.image import Image
from kwire.cluster.kind import (
    Field,
    Fields,
    FoldError,
    Key,
    Kind,
    Name,
    Place,
    RecordType,
    shown,
    types_of,
)
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.protocol import (
    SCRAM_MECHANISMS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    name_of,
)
from kwire.records.redact import redact
from kwire.uuid import Uuid

_ACL_FIELDS: Final = {
    "resourceType": Field(STRING, lambda acl: name_of(ResourceType, acl.resource_type)),
    "resourceName": Field(STRING, lambda acl: acl.resource_name),
    "patternType": Field(STRING, lambda acl: name_of(PatternType, acl.pattern_type)),
    "principal": Field(STRING, lambda acl: acl.principal),
    "host": Field(STRING, lambda acl: acl.host),
    "operation": Field(STRING, lambda acl: name_of(AclOperation, acl.operation)),
    "permissionType": Field(STRING, lambda acl: name_of(PermissionType, acl.permission_type)),
}


def acl_fields(acl: Any) -> Fields:
    """Return the fields of an ACL, without its id."""
    return shown(_ACL_FIELDS, acl)


def _remove_acl(image: Image, record: Any) -> None:
    if image.acls.pop(record.id, None) is None:
        raise FoldError(
            f"RemoveAccessControlEntryRecord for ACL {Uuid(record.id)}, which does not exist"
        )


def _acl_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for acl_id, acl in sorted((str(acl_id), acl) for acl_id, acl in image.acls.items()):
        yield ("acls", "byId", acl_id), acl_fields(acl)


ACL: Final = Kind(
    kind="acl",
    records=(
        RecordType(AccessControlEntryRecord, "acl", set_in("acls", "id"), ("id",)),
        RecordType(RemoveAccessControlEntryRecord, "acl", _remove_acl, ("id",)),
    ),
    keys=keys_of("acls"),
    find=find_in("acls"),
    snapshot=records_of("acls"),
    view="acls",
    key_fields=("id",),
    name=lambda acl: (str(acl.id),),
    fields=lambda acl: {"id": str(acl.id)} | acl_fields(acl),
    types={"id": STRING, **types_of(_ACL_FIELDS)},
    roots=(("acls", "byId"),),
    tree=_acl_tree,
)


_USER_FIELDS: Final = {
    "salt": Field(STRING, lambda credential: credential.salt.hex()),
    "storedKey": Field(STRING, lambda credential: credential.stored_key.hex()),
    "serverKey": Field(STRING, lambda credential: credential.server_key.hex()),
    "iterations": Field(INT32, lambda credential: credential.iterations),
}
_USER_KEY: Final = ("mechanism", "name")


def mechanism_name(number: int) -> str:
    """Return the name of a mechanism; the number of one that is newer than this code."""
    return SCRAM_MECHANISMS.get(number, str(number))


def _set_user(image: Image, record: Any) -> None:
    image.scram[record.mechanism, record.name] = record


def _remove_user(image: Image, record: Any) -> None:
    image.scram.pop((record.mechanism, record.name), None)


def _find_user(image: Image, key: Key) -> UserScramCredentialRecord | None:
    return image.scram.get((key[0], key[1]))


def _user_name(credential: Any) -> Name:
    return credential.name, mechanism_name(credential.mechanism)


def _user_fields(credential: Any) -> Fields:
    user, mechanism = _user_name(credential)
    return {"user": user, "mechanism": mechanism} | _user_redacted(
        (), shown(_USER_FIELDS, credential)
    )


def _user_redacted(place: Place, fields: Fields) -> Fields:
    return redact("USER_SCRAM_CREDENTIAL_RECORD", fields)


def _user_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for (mechanism, user), credential in sorted(image.scram.items()):
        yield ("scram", mechanism_name(mechanism), user), shown(_USER_FIELDS, credential)


USER: Final = Kind(
    kind="user",
    records=(
        RecordType(UserScramCredentialRecord, "user", _set_user, _USER_KEY, shown_key=("name",)),
        RecordType(
            RemoveUserScramCredentialRecord, "user", _remove_user, _USER_KEY, shown_key=("name",)
        ),
    ),
    keys=lambda image: iter(sorted(image.scram)),
    find=_find_user,
    snapshot=records_of("scram"),
    view="users",
    key_fields=("user", "mechanism"),
    name=_user_name,
    fields=_user_fields,
    types={"user": STRING, "mechanism": STRING, **types_of(_USER_FIELDS)},
    roots=tuple(("scram", mechanism) for mechanism in SCRAM_MECHANISMS.values()),
    tree=_user_tree,
    redacted=_user_redacted,
)


_TOKEN_FIELDS: Final = {
    "tokenId": Field(STRING, lambda token: token.token_id),
    "owner": Field(STRING, lambda token: token.owner),
    "tokenRequester": Field(STRING, lambda token: token.requester),
    "renewers": Field(TEXTS, lambda token: list(token.renewers)),
    "issueTimestamp": Field(INT64, lambda token: token.issue_timestamp),
    "maxTimestamp": Field(INT64, lambda token: token.max_timestamp),
    "expiryTimestamp": Field(INT64, lambda token: token.expiration_timestamp),
}
_TOKEN_ID: Final = "token_id"


def token_fields(token: Any) -> Fields:
    """Return the fields of a token."""
    return shown(_TOKEN_FIELDS, token)


def _token_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for token_id, token in sorted(image.tokens.items()):
        yield ("delegationToken", token_id), token_fields(token)


TOKEN: Final = Kind(
    kind="token",
    records=(
        RecordType(DelegationTokenRecord, "token", set_in("tokens", _TOKEN_ID), (_TOKEN_ID,)),
        RecordType(
            RemoveDelegationTokenRecord, "token", remove_from("tokens", _TOKEN_ID), (_TOKEN_ID,)
        ),
    ),
    keys=keys_of("tokens"),
    find=find_in("tokens"),
    snapshot=records_of("tokens"),
    view="tokens",
    key_fields=("tokenId",),
    name=lambda token: (token.token_id,),
    fields=token_fields,
    types=types_of(_TOKEN_FIELDS),
    roots=(("delegationToken",),),
    tree=_token_tree,
)
