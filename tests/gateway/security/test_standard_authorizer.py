"""The authorizer: the facts of Kafka's ``StandardAuthorizerTest``; random ACLs against a definition
that looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.security.acls import ALLOW, DENY, LITERAL, PREFIXED, RESOURCE_TYPES, AclIndex
from gateway.security.standard_authorizer import OPERATIONS, StandardAuthorizer, parse_super_users
from kwire.cluster import Delta, Image
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.uuid import Uuid
from tests.gateway.steps import calls_of

HOST = "127.0.0.1"
#: (resource type, name, pattern type, principal, host, operation, permission)
Row = tuple[str, str, int, str, str, str, int]


def acl(row: Row, number: int = 1) -> AccessControlEntryRecord:
    kind, name, pattern, principal, host, operation, permission = row
    return AccessControlEntryRecord(
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=RESOURCE_TYPES[kind],
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=OPERATIONS[operation],
        permission_type=permission,
    )


def authorizer(*rows: Row, **options: Any) -> StandardAuthorizer:
    acls = {one.id: one for number, row in enumerate(rows) for one in [acl(row, number)]}
    return over(Image(acls=acls), **options)


def over(image: Image, **options: Any) -> StandardAuthorizer:
    """An authorizer that has heard of ``image``."""
    made = StandardAuthorizer(**options)
    made.on_update(None, image)
    return made


def change(image: Image, *added: AccessControlEntryRecord, removed: Iterable[Uuid] = ()) -> Delta:
    """Commit a change of the ACLs."""
    delta = Delta(image)
    for id in removed:
        del delta.image.acls[id]
    for one in added:
        delta.image.acls[one.id] = one
    delta.commit()
    return delta


def foo(operation: str, permission: int) -> Row:
    return ("TOPIC", "foo_", PREFIXED, "User:bob", "*", operation, permission)


def ask(
    rows: Row | list[Row], user: str, operation: str, kind: str, name: str, **options: Any
) -> bool:
    rows = rows if isinstance(rows, list) else [rows]
    return authorizer(*rows, **options).allows(f"User:{user}", HOST, operation, kind, name)


@pytest.mark.parametrize("operation", ["DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"])
def test_these_imply_describe_when_allowed_and_imply_nothing_when_denied(operation: str) -> None:
    assert ask(foo(operation, ALLOW), "bob", "DESCRIBE", "TOPIC", "foo_bar")
    both = [foo("DESCRIBE", ALLOW), foo(operation, DENY)]
    assert ask(both, "bob", "DESCRIBE", "TOPIC", "foo_bar") == (operation != "DESCRIBE")


@pytest.mark.parametrize(
    "operation",
    ["CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"],
)
def test_these_do_not_imply_describe(operation: str) -> None:
    assert not ask(foo(operation, ALLOW), "bob", "DESCRIBE", "TOPIC", "foo_bar")


def test_alter_configs_implies_describe_configs_when_allowed() -> None:
    assert ask(foo("DESCRIBE_CONFIGS", ALLOW), "bob", "DESCRIBE_CONFIGS", "TOPIC", "foo_bar")
    assert ask(foo("ALTER_CONFIGS", ALLOW), "bob", "DESCRIBE_CONFIGS", "TOPIC", "foo_bar")
    assert ask(
        [foo("DESCRIBE_CONFIGS", ALLOW), foo("ALTER_CONFIGS", DENY)],
        "bob",
        "DESCRIBE_CONFIGS",
        "TOPIC",
        "foo_bar",
    )
    assert not ask(
        [foo("ALL", ALLOW), foo("ALTER_CONFIGS", DENY)], "bob", "ALTER_CONFIGS", "TOPIC", "foo_bar"
    )


def test_acl_applies_to_its_principal_alone() -> None:
    anybody_reads_not = ("GROUP", "bar", LITERAL, "User:*", "*", "READ", DENY)
    assert ask(foo("READ", ALLOW), "bob", "READ", "TOPIC", "foo_bar")
    assert not ask(foo("READ", ALLOW), "alice", "READ", "TOPIC", "foo_bar")
    assert not ask(anybody_reads_not, "alice", "READ", "GROUP", "bar", allow_everyone=True)


def test_simple_authorizations() -> None:
    rows = [foo("READ", ALLOW), foo("WRITE", ALLOW)]
    rows += [
        ("GROUP", "bar", LITERAL, "User:*", "*", one, ALLOW)
        for one in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    ]
    assert ask(rows, "bob", "READ", "TOPIC", "foo_")
    assert ask(rows, "fred", "ALTER_CONFIGS", "GROUP", "bar")


@pytest.mark.parametrize(
    ("user", "operation", "name", "allowed"),
    [
        ("alice", "WRITE", "foo", True),
        ("alice", "DESCRIBE_CONFIGS", "bar", True),
        ("alice", "DESCRIBE", "baz", False),
        ("bob", "WRITE", "foo", True),
        ("bob", "READ", "bar", False),
        ("bob", "DESCRIBE", "baz", True),
        ("malory", "DESCRIBE", "foo", True),
        ("malory", "WRITE", "bar", False),
        ("malory", "READ", "baz", False),
    ],
)
def test_the_operation_all(user: str, operation: str, name: str, allowed: bool) -> None:
    rows: list[Row] = [
        ("TOPIC", "foo", LITERAL, "User:*", "*", "ALL", ALLOW),
        ("TOPIC", "bar", PREFIXED, "User:alice", "*", "ALL", ALLOW),
        ("TOPIC", "baz", LITERAL, "User:bob", "*", "ALL", ALLOW),
    ]
    assert ask(rows, user, operation, "TOPIC", name) is allowed


@pytest.mark.parametrize(
    ("operation", "kind", "name", "allowed"),
    [
        ("READ", "TOPIC", "green1", True),
        ("WRITE", "GROUP", "wheel", False),
        ("READ", "TOPIC", "alpha", False),
        ("WRITE", "GROUP", "arbitrary", True),
        ("READ", "TOPIC", "ala", False),
        ("READ", "TOPIC", "betamax4", True),
        ("READ", "TOPIC", "betamax", True),
        ("READ", "TOPIC", "betam", True),
        ("READ", "TOPIC", "bet", False),
    ],
)
def test_many_acls(operation: str, kind: str, name: str, allowed: bool) -> None:
    rows: list[Row] = [
        ("TOPIC", "green2", LITERAL, "User:*", "*", "READ", ALLOW),
        ("TOPIC", "green", PREFIXED, "User:bob", "*", "READ", ALLOW),
        ("TOPIC", "betamax4", LITERAL, "User:bob", "*", "READ", ALLOW),
        ("TOPIC", "betamax", LITERAL, "User:bob", "*", "READ", ALLOW),
        ("TOPIC", "beta", PREFIXED, "User:*", "*", "READ", ALLOW),
        ("TOPIC", "alpha", PREFIXED, "User:*", "*", "READ", ALLOW),
        ("TOPIC", "alp", PREFIXED, "User:bob", "*", "READ", DENY),
        ("GROUP", "*", LITERAL, "User:bob", "*", "WRITE", ALLOW),
        ("GROUP", "wheel", LITERAL, "User:*", "*", "WRITE", DENY),
    ]
    assert ask(rows, "bob", operation, kind, name) is allowed


@pytest.mark.parametrize(
    ("acl_host", "host", "matches"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/8", "10.0.0.1", True),  # an address, never a network
        ("10.0.0.1", "::ffff:10.0.0.1", True),  # what Java calls such a peer
        ("0:0:0:0:0:0:0:1", "::1", True),  # InetAddress.getHostAddress
        ("::1", "::1", True),
        ("fe80:0:0:0:0:0:0:7%eth0", "fe80::7%eth0", True),
        ("::1", "::2", False),
    ],
)
def test_acl_applies_to_its_host_alone(acl_host: str, host: str, matches: bool) -> None:
    row: Row = ("TOPIC", "t", LITERAL, "User:bob", acl_host, "READ", ALLOW)
    assert authorizer(row).allows("User:bob", host, "READ", "TOPIC", "t") is matches


def test_everyone_is_allowed_only_where_no_acl_speaks_of_the_resource() -> None:
    rows: list[Row] = [("TOPIC", "known", LITERAL, "User:somebody", "10.9.9.9", "CREATE", ALLOW)]
    assert not ask(rows, "bob", "READ", "TOPIC", "unknown")
    assert ask(rows, "bob", "READ", "TOPIC", "unknown", allow_everyone=True)
    assert ask(rows, "bob", "READ", "GROUP", "known", allow_everyone=True)
    assert not ask(rows, "bob", "READ", "TOPIC", "known", allow_everyone=True)


def test_super_users_may_do_everything_despite_denials_and_before_the_log_is_read() -> None:
    row: Row = ("TOPIC", "*", LITERAL, "User:*", "*", "ALL", DENY)
    assert ask(row, "root", "READ", "TOPIC", "t", super_users=frozenset({"User:root"}))
    assert not ask(row, "Root", "READ", "TOPIC", "t", super_users=frozenset({"User:root"}))
    unread = StandardAuthorizer(super_users=frozenset({"User:root"}), allow_everyone=True)
    unread.on_update(Delta(Image()), Image())
    assert unread.allows("User:root", HOST, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster")
    assert not unread.allows("User:bob", HOST, "READ", "TOPIC", "t")


def test_super_users_are_written_as_in_kafka() -> None:
    assert parse_super_users(" ") == frozenset()
    assert parse_super_users("User:bob;User:alice ") == {"User:bob", "User:alice"}
    assert parse_super_users(";  User:bob  ;  User:alice ") == {"User:bob", "User:alice"}
    assert parse_super_users("User:CN=a,O=b") == {"User:CN=a,O=b"}
    # A blank beyond ASCII is part of the name: another user's.
    assert parse_super_users("User:bob\xa0;\0User:eve\x1f") == {"User:bob\xa0", "User:eve"}
    for wrong in ("bob;:alice", ":alice"):
        with pytest.raises(ValueError, match="principalType:principalName"):
            parse_super_users(wrong)


_names = st.text("ab*", max_size=4)
_rows = st.tuples(
    st.sampled_from(["TOPIC", "GROUP"]),
    _names,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:x", "User:y", "User:*"]),
    st.sampled_from(["*", HOST, "10.0.0.1"]),
    st.sampled_from(["ALL", "READ", "WRITE", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)


def by_definition(
    rows: list[Row], user: str, operation: str, kind: str, name: str, default: bool
) -> bool:
    """As Kafka's documentation has it: every ACL is looked at."""
    implied = {
        "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
        "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
    }
    about = [
        r
        for r in rows
        if r[0] == kind and (name.startswith(r[1]) if r[2] == PREFIXED else r[1] in (name, "*"))
    ]
    mine = [r for r in about if r[3] in (f"User:{user}", "User:*") and r[4] in ("*", HOST)]
    if any(r[6] == DENY and r[5] in (operation, "ALL") for r in mine):
        return False
    if any(
        r[6] == ALLOW and r[5] in {operation, "ALL"} | implied.get(operation, set()) for r in mine
    ):
        return True
    return default and not about


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_rows, max_size=8), min_size=1, max_size=4), _names, st.booleans())
def test_index_of_changing_random_acls_equals_the_definition(
    versions: list[list[Row]], name: str, default: bool
) -> None:
    """CVE-2024-27309: a change of some ACLs leaves the others in force."""
    image = Image()
    made: dict[Row, AccessControlEntryRecord] = {}
    tested, told = over(image, allow_everyone=default), over(image, allow_everyone=default)
    for rows in versions:
        for row in rows:
            made.setdefault(row, acl(row, len(made)))
        now = {made[row].id: made[row] for row in rows}
        gone = image.acls.keys() - now.keys()
        told.on_update(change(image, *now.values(), removed=gone), image)
        tested.on_update(None, Image(acls=now))
        for user in ("x", "y"):
            for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE"):
                for kind in ("TOPIC", "GROUP"):
                    right = by_definition(rows, user, operation, kind, name, default)
                    assert tested.allows(f"User:{user}", HOST, operation, kind, name) is right
                    assert told.allows(f"User:{user}", HOST, operation, kind, name) is right


def test_acl_that_is_in_the_log_twice_holds_until_both_are_removed() -> None:
    row: Row = ("TOPIC", "t", LITERAL, "User:bob", "*", "READ", ALLOW)
    acls = {one.id: one for one in (acl(row, 1), acl(row, 2), acl(row, 3))}
    image = Image(acls=acls)
    tested = over(image)
    for left in (2, 1, 0):
        tested.on_update(change(image, removed=[next(iter(acls))]), image)
        assert len(acls) == left
        assert tested.allows("User:bob", HOST, "READ", "TOPIC", "t") is (left > 0)


@pytest.mark.parametrize("operation", [-128, -1, 0, 1, 16, 127])
def test_acl_of_an_unknown_operation_allows_and_denies_nothing_but_is_an_acl(
    operation: int,
) -> None:
    row: Row = ("TOPIC", "t", LITERAL, "User:bob", "*", "READ", DENY)
    other = acl(row)
    other.operation = operation
    image = Image(acls={other.id: other})
    tested = over(image, allow_everyone=True)
    assert not tested.allows("User:bob", HOST, "READ", "TOPIC", "t")
    tested.on_update(change(image, removed=[other.id]), image)
    assert tested.allows("User:bob", HOST, "READ", "TOPIC", "t")


def wildcard_acls(count: int) -> dict[Uuid, AccessControlEntryRecord]:
    """So many ACLs on the topic ``*``, half of them for principals of their own, half for hosts of
    their own.
    """
    users = [
        ("TOPIC", "*", LITERAL, f"User:u{number}", "*", "READ", ALLOW)
        for number in range(count // 2)
    ]
    hosts = [
        ("TOPIC", "*", LITERAL, "User:*", f"10.1.{n >> 8}.{n & 255}", "READ", ALLOW)
        for n in range(count // 2)
    ]
    return {one.id: one for number, row in enumerate(users + hosts) for one in [acl(row, number)]}


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_question_takes_the_same_calls_for_any_number_of_acls_on_the_wildcard(
    allow_everyone: bool,
) -> None:
    def calls(count: int) -> int:
        tested = over(Image(acls=wildcard_acls(count)), allow_everyone=allow_everyone)
        tested.allows("User:nobody", HOST, "DESCRIBE", "TOPIC", "first")
        allowed, calls = calls_of(
            lambda: tested.allows("User:nobody", HOST, "DESCRIBE", "TOPIC", "t")
        )
        assert not allowed
        return calls

    assert calls(10_000) == calls(10)


def test_calls_for_an_acl_do_not_grow_with_the_number_of_acls_of_its_name() -> None:
    def calls(count: int) -> int:
        acls, index = wildcard_acls(count), AclIndex()

        def added_and_removed() -> None:
            index.update(acls)
            index.update({})

        _, calls = calls_of(added_and_removed)
        assert len(index) == 0 and not index.has_acls(RESOURCE_TYPES["TOPIC"], "t")
        return calls

    assert calls(10_000) <= 11 * calls(1000)


def test_change_of_one_acl_costs_no_look_at_the_others() -> None:
    class Counting(dict[Uuid, AccessControlEntryRecord]):
        looks = 0

        def get(self, *arguments: Any) -> Any:
            self.looks += 1
            return super().get(*arguments)

    image = Image(acls=Counting(wildcard_acls(1_000)))
    tested = over(image)
    assert not tested.allows("User:nobody", HOST, "READ", "TOPIC", "t")
    new = acl(("TOPIC", "t", LITERAL, "User:nobody", "*", "READ", ALLOW), 1_000_000)
    delta = change(image, new)
    image.acls = acls = Counting(image.acls)
    tested.on_update(delta, image)
    assert tested.allows("User:nobody", HOST, "READ", "TOPIC", "t")
    assert acls.looks == 1


def test_delta_of_other_records_changes_no_acl() -> None:
    row: Row = ("TOPIC", "orders", LITERAL, "User:bob", "*", "READ", ALLOW)
    image = Image(acls={Uuid(bytes(16)): acl(row)})
    tested = over(image)
    tested.on_update(change(image), image)
    assert tested.allows("User:bob", HOST, "READ", "TOPIC", "orders")


def test_index_that_was_prepared_for_another_image_is_taken_and_kept_up_to_date(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row: Row = ("TOPIC", "orders", LITERAL, "User:bob", "*", "READ", ALLOW)
    other: Row = ("TOPIC", "bills", LITERAL, "User:bob", "*", "READ", ALLOW)
    first, second = acl(row, 1), acl(other, 2)
    image = Image(acls={first.id: first})
    tested = over(Image())
    tested.prepare(None, image)
    assert not tested.allows("User:bob", HOST, "READ", "TOPIC", "orders"), "not published yet"
    with monkeypatch.context() as patched:
        patched.delattr(AclIndex, "update")  # all of the ACLs are never indexed here
        tested.on_update(None, image)
        assert tested.allows("User:bob", HOST, "READ", "TOPIC", "orders")
        tested.on_update(change(image, second, removed=[first.id]), image)
    assert tested.allows("User:bob", HOST, "READ", "TOPIC", "bills")
    assert not tested.allows("User:bob", HOST, "READ", "TOPIC", "orders")
