"""Requests about ACLs, quotas and SCRAM credentials to Kafka's controller and to kwire's; each
meets the state that the ones before left.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.message import Message
from tests.gateway.controller.cluster import made

#: Numbers of resource types, of patterns, of operations, of permissions.
ANY = 1
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(2, 8)
MATCH, LITERAL, PREFIXED = range(2, 5)
ALL, READ, WRITE = range(2, 5)
DENY, ALLOW = 2, 3
#: Match types of quota filters.
EXACT, DEFAULT, SPECIFIED = range(3)
SHA_256, SHA_512 = 1, 2


def acl(kind: int, name: str, principal: str = "User:ann", **more: Any) -> dict[str, Any]:
    defaults = {
        "resource_pattern_type": LITERAL,
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return {
        "resource_type": kind,
        "resource_name": name,
        "principal": principal,
        **defaults,
        **more,
    }


def create_acls(*acls: dict[str, Any]) -> Message:
    return made("CreateAclsRequest", creations=list(acls))


def wanted(
    kind: int = ANY, name: str | None = None, pattern: int = ANY, **more: Any
) -> dict[str, Any]:
    asked = {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
    }
    return (
        asked
        | {"principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY}
        | more
    )


def find_acls(*args: Any, **more: Any) -> Message:
    return made("DescribeAclsRequest", **wanted(*args, **more))


def delete_acls(*filters: dict[str, Any]) -> Message:
    return made("DeleteAclsRequest", filters=list(filters))


def quota(entity: dict[str, str | None], *changes: tuple[str, float | None]) -> dict[str, Any]:
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes]
    return {"entity": named, "ops": ops}


def alter_quotas(*entries: dict[str, Any], **more: Any) -> Message:
    return made("AlterClientQuotasRequest", entries=list(entries), **more)


def find_quotas(*components: tuple[str, int, str | None], strict: bool = False) -> Message:
    asked = [
        {"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components
    ]
    return made("DescribeClientQuotasRequest", components=asked, strict=strict)


def upsert(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: bytes = b"p" * 32
) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": password,
    }


def drop(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter_scram(*changes: dict[str, Any]) -> Message:
    return made(
        "AlterUserScramCredentialsRequest",
        deletions=[one for one in changes if "salt" not in one],
        upsertions=[one for one in changes if "salt" in one],
    )


def find_scram(*users: str) -> Message:
    asked = [{"name": name} for name in users] or None
    return made("DescribeUserScramCredentialsRequest", users=asked)


#: Hosts in CIDR notation, half of them malformed.
RANGES: Final = (
    "10.1.2.3/8",
    "10.0.0.0/33",
    "10.0.0.256/8",
    "10.0.0/8",
    "host/8",
    "/",
    "10.0.0.0/",
    "fd00::/8",
    "[fd00::]/8",
    "fd00::/129",
    "fd00::/+8",
    "fd00::/x",
    "::ffff:10.0.0.1/96",
    "00fd::/16",
    "::1.2.3.4/96",
    "fe80::1%eth9/64",
    "0.0.0.0/0",
    "::/0",
)

ACLS: Final[list[tuple[str, Message]]] = [
    ("none yet", find_acls()),
    (
        "make",
        create_acls(
            acl(TOPIC, "orders"), acl(TOPIC, "ord", resource_pattern_type=PREFIXED), acl(TOPIC, "*")
        ),
    ),
    ("make again", create_acls(acl(TOPIC, "orders"), acl(TOPIC, "orders", operation=WRITE))),
    ("twice in one", create_acls(acl(GROUP, "g"), acl(GROUP, "g"))),
    (
        "denied, from a host",
        create_acls(acl(TOPIC, "orders", "User:bob", host="10.0.0.1", permission_type=DENY)),
    ),
    ("of the cluster", create_acls(acl(CLUSTER, "kafka-cluster"), acl(CLUSTER, "cluster"))),
    ("no name", create_acls(acl(TOPIC, ""), acl(GROUP, "h"))),
    ("unknown type", create_acls(acl(99, "a"), acl(TOPIC, "a0"))),
    ("unknown pattern", create_acls(acl(TOPIC, "a", resource_pattern_type=9))),
    ("new operation", create_acls(acl(TOPIC, "a", operation=15), acl(TOPIC, "a", operation=2))),
    ("unknown operation", create_acls(acl(TOPIC, "a", operation=16))),
    ("any type", create_acls(acl(ANY, "a"))),
    ("any pattern", create_acls(acl(TOPIC, "a", resource_pattern_type=ANY))),
    ("matching pattern", create_acls(acl(TOPIC, "a", resource_pattern_type=MATCH))),
    ("any operation", create_acls(acl(TOPIC, "a", operation=ANY))),
    ("any permission", create_acls(acl(TOPIC, "a", permission_type=ANY))),
    ("no permission number", create_acls(acl(TOPIC, "a", permission_type=99))),
    (
        "principals",
        create_acls(
            acl(TOPIC, "p", "ann"),
            acl(TOPIC, "q", ""),
            acl(TOPIC, "r", "User:"),
            acl(TOPIC, "s", ":ann"),
        ),
    ),
    (
        "kinds of principals",
        create_acls(
            acl(TOPIC, "t", "Group:staff"), acl(TOPIC, "u", "User:*"), acl(TOPIC, "v", "User:a:b")
        ),
    ),
    (
        "hosts",
        create_acls(
            *(
                acl(TOPIC, "h", host=one)
                for one in ("", "host.example", "300.1.1.1", "10.0.0.0/8", "::1")
            )
        ),
    ),
    ("ranges of hosts", create_acls(*(acl(TOPIC, "r", host=one) for one in RANGES))),
    ("no such controller", made("UnregisterControllerRequest", controller_id=99)),
    (
        "others",
        create_acls(
            acl(TRANSACTIONAL_ID, "tx"), acl(TOKEN, "id"), acl(USER, "User:ann", operation=13)
        ),
    ),
    (
        "operations of others",
        create_acls(acl(TOKEN, "id", operation=WRITE), acl(GROUP, "g", operation=5)),
    ),
    ("all", find_acls()),
    ("of a type", find_acls(TOPIC)),
    ("of a name", find_acls(TOPIC, "orders")),
    ("of a literal name", find_acls(TOPIC, "orders", LITERAL)),
    ("of a prefix", find_acls(TOPIC, "ord", PREFIXED)),
    ("of all prefixes", find_acls(ANY, None, PREFIXED)),
    ("what covers a name", find_acls(TOPIC, "orders", MATCH)),
    ("what covers another name", find_acls(TOPIC, "ordinary", MATCH)),
    ("what covers every name", find_acls(TOPIC, "*", MATCH)),
    ("what covers no name", find_acls(TOPIC, None, MATCH)),
    ("what is named *", find_acls(TOPIC, "*", LITERAL)),
    ("what is named nothing", find_acls(TOPIC, "")),
    ("of a principal", find_acls(principal_filter="User:bob")),
    ("of a host", find_acls(host_filter="10.0.0.1")),
    ("of every host", find_acls(host_filter="*")),
    ("of an operation", find_acls(operation=WRITE)),
    ("denied", find_acls(permission_type=DENY)),
    ("of an unknown type", find_acls(99)),
    ("of an unknown pattern", find_acls(TOPIC, "orders", 9)),
    ("of an unknown operation", find_acls(operation=99)),
    ("delete by unknown type", delete_acls(wanted(99))),
    ("delete by unknown operation", delete_acls(wanted(operation=99), wanted(USER))),
    ("delete", delete_acls(wanted(TOPIC, "orders", LITERAL, principal_filter="User:bob"))),
    ("delete nothing", delete_acls(wanted(TOPIC, "nothing"))),
    ("delete what two filters find", delete_acls(wanted(GROUP, "g"), wanted(GROUP))),
    ("delete what covers", delete_acls(wanted(TOPIC, "orders", MATCH))),
    ("what is left", find_acls()),
    ("delete all", delete_acls(wanted())),
    ("nothing is left", find_acls()),
    ("make anew", create_acls(acl(TOPIC, "orders"))),
    ("one again", find_acls()),
]

U: Final = "user"
C: Final = "client-id"
IP: Final = "ip"
PRODUCED, CONSUMED, CONNECTED = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "connection_creation_rate",
)
QUOTAS: Final[list[tuple[str, Message]]] = [
    ("none yet", find_quotas()),
    ("set", alter_quotas(quota({U: "ann"}, (PRODUCED, 1024.0), (CONSUMED, 2048.0)))),
    (
        "set both",
        alter_quotas(
            quota(
                {U: "ann", C: "app"},
                ("request_percentage", 12.5),
                ("controller_mutation_rate", 0.5),
            )
        ),
    ),
    (
        "defaults",
        alter_quotas(quota({U: None}, (PRODUCED, 1.0)), quota({C: None}, (CONSUMED, 2.0))),
    ),
    ("default of both", alter_quotas(quota({U: None, C: None}, (PRODUCED, 3.0)))),
    ("one default", alter_quotas(quota({U: "ann", C: None}, (PRODUCED, 4.0)))),
    ("client", alter_quotas(quota({C: "app"}, (CONSUMED, 7.0)))),
    (
        "ip",
        alter_quotas(
            quota({IP: "10.0.0.1"}, (CONNECTED, 5.0)), quota({IP: None}, (CONNECTED, 6.0))
        ),
    ),
    ("ip v6", alter_quotas(quota({IP: "::1"}, (CONNECTED, 5.0)))),
    ("ip, not one", alter_quotas(quota({IP: "300.1.1.1"}, (CONNECTED, 5.0)))),
    ("ip and user", alter_quotas(quota({IP: "10.0.0.1", U: "ann"}, (CONNECTED, 5.0)))),
    ("ip, wrong key", alter_quotas(quota({IP: "10.0.0.1"}, (PRODUCED, 5.0)))),
    ("ip, fraction", alter_quotas(quota({IP: "10.0.0.1"}, (CONNECTED, 5.5)))),
    ("ip, too large", alter_quotas(quota({IP: "10.0.0.1"}, (CONNECTED, 2.0**31)))),
    ("user, wrong key", alter_quotas(quota({U: "ann"}, (CONNECTED, 5.0)))),
    ("unknown key", alter_quotas(quota({U: "ann"}, ("bytes", 5.0)))),
    ("fraction", alter_quotas(quota({U: "ann"}, (PRODUCED, 5.5)))),
    ("nearly none", alter_quotas(quota({U: "ben"}, (PRODUCED, 5.0000001)))),
    ("nothing", alter_quotas(quota({U: "ann"}, (PRODUCED, 0.0)))),
    ("negative", alter_quotas(quota({U: "ann"}, (PRODUCED, -1.0)))),
    ("too much", alter_quotas(quota({U: "ann"}, (PRODUCED, 1e30)))),
    ("very much", alter_quotas(quota({U: "ben"}, (PRODUCED, 2.0**63)))),
    ("infinite share", alter_quotas(quota({U: "ben"}, ("request_percentage", float("inf"))))),
    ("one of two wrong", alter_quotas(quota({U: "eve"}, (PRODUCED, 9.0), ("bytes", 5.0)))),
    (
        "one entity of two wrong",
        alter_quotas(quota({U: "eve"}, ("bytes", 5.0)), quota({U: "joe"}, (PRODUCED, 9.0))),
    ),
    ("a key twice", alter_quotas(quota({U: "kim"}, (PRODUCED, 1.0), (PRODUCED, 2.0)))),
    (
        "an entity twice",
        alter_quotas(quota({U: "lea"}, (PRODUCED, 1.0)), quota({U: "lea"}, (CONSUMED, 2.0))),
    ),
    ("no entity", alter_quotas(quota({}, (PRODUCED, 1.0)))),
    ("an empty name", alter_quotas(quota({U: ""}, (PRODUCED, 1.0)))),
    ("an unknown entity", alter_quotas(quota({"group": "g"}, (PRODUCED, 1.0)))),
    ("no entries", alter_quotas()),
    ("no changes", alter_quotas(quota({U: "ann"}))),
    ("remove", alter_quotas(quota({U: "ann"}, (CONSUMED, None)))),
    (
        "remove what is not there",
        alter_quotas(quota({U: "ann"}, (CONSUMED, None)), quota({U: "zoe"}, ("nope", None))),
    ),
    ("set to the same", alter_quotas(quota({U: "ann"}, (PRODUCED, 1024.0)))),
    (
        "validate only",
        alter_quotas(
            quota({U: "max"}, (PRODUCED, 1.0)), quota({U: "max2"}, ("x", 1.0)), validate_only=True
        ),
    ),
    ("strange names", alter_quotas(quota({U: "a b/ü*", C: "=;"}, (PRODUCED, 1.0)))),
    ("all", find_quotas()),
    ("nothing, strictly", find_quotas(strict=True)),
    ("user", find_quotas((U, EXACT, "ann"))),
    ("user, strictly", find_quotas((U, EXACT, "ann"), strict=True)),
    ("default user", find_quotas((U, DEFAULT, None))),
    ("default user, strictly", find_quotas((U, DEFAULT, None), strict=True)),
    ("any user", find_quotas((U, SPECIFIED, None))),
    ("any user, strictly", find_quotas((U, SPECIFIED, None), strict=True)),
    ("user and any client", find_quotas((U, EXACT, "ann"), (C, SPECIFIED, None))),
    ("user and default client", find_quotas((U, EXACT, "ann"), (C, DEFAULT, None), strict=True)),
    ("both defaults", find_quotas((U, DEFAULT, None), (C, DEFAULT, None))),
    ("any of both", find_quotas((U, SPECIFIED, None), (C, SPECIFIED, None), strict=True)),
    ("client", find_quotas((C, EXACT, "app"))),
    ("ips", find_quotas((IP, SPECIFIED, None))),
    ("an ip", find_quotas((IP, EXACT, "10.0.0.1"), strict=True)),
    ("default ip", find_quotas((IP, DEFAULT, None))),
    ("ip and user", find_quotas((IP, SPECIFIED, None), (U, SPECIFIED, None))),
    ("nobody", find_quotas((U, EXACT, "nobody"))),
    ("twice the same type", find_quotas((U, EXACT, "ann"), (U, DEFAULT, None))),
    ("no type", find_quotas(("", EXACT, "ann"))),
    ("an unknown type", find_quotas(("group", EXACT, "ann"))),
    ("an unknown match", find_quotas((U, 7, None))),
    ("exact without a name", find_quotas((U, EXACT, None))),
    ("default with a name", find_quotas((U, DEFAULT, "ann"))),
    ("any with a name", find_quotas((U, SPECIFIED, "ann"))),
    ("remove all", alter_quotas(quota({U: "ann"}, (PRODUCED, None)))),
    ("what is left of the user", find_quotas((U, EXACT, "ann"), strict=True)),
]

SCRAM: Final[list[tuple[str, Message]]] = [
    ("none yet", find_scram()),
    ("make", alter_scram(upsert("ann"), upsert("ben", SHA_512, 8192, b"q" * 64))),
    ("both mechanisms", alter_scram(upsert("ann", SHA_512, 16384, b"q" * 64))),
    ("change", alter_scram(upsert("ann", SHA_256, 5000))),
    ("twice in one", alter_scram(upsert("eve"), upsert("eve", SHA_512))),
    ("thrice in one", alter_scram(upsert("eve"), upsert("eve", SHA_512), upsert("eve"))),
    ("made and dropped in one", alter_scram(drop("ann"), upsert("ann", SHA_512))),
    ("dropped twice in one", alter_scram(drop("ann"), drop("ann", SHA_512))),
    ("no name", alter_scram(upsert(""), drop(""))),
    ("no mechanism", alter_scram(upsert("kim", 0), upsert("lea", 3), drop("ann", 9))),
    ("too few iterations", alter_scram(upsert("kim", SHA_256, 4095))),
    ("too many iterations", alter_scram(upsert("kim", SHA_256, 16385))),
    ("no password", alter_scram(upsert("kim", SHA_256, 4096, b""))),
    ("a short password", alter_scram(upsert("joe", SHA_256, 4096, b"x"))),
    ("a long password", alter_scram(upsert("joe", SHA_512, 4096, b"x" * 1000))),
    ("drop what is not there", alter_scram(drop("nobody"), drop("ben", SHA_256))),
    ("one right of two", alter_scram(drop("nobody"), upsert("max"))),
    ("nothing", alter_scram()),
    ("strange name", alter_scram(upsert("a=b,c ü"))),
    ("all", find_scram()),
    ("some", find_scram("ann", "nobody", "ben")),
    ("some twice", find_scram("ann", "ann", "ben", "nobody", "nobody", "nobody")),
    ("of no name", find_scram("")),
    ("drop", alter_scram(drop("ann"))),
    ("one of two is left", find_scram("ann")),
    ("drop the other", alter_scram(drop("ann", SHA_512))),
    ("none is left", find_scram("ann")),
]
