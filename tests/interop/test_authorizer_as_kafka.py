"""Asks Kafka's own ``StandardAuthorizer`` and kwire's the same questions, while random ACLs are
added and removed.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gateway.security.acls import ALLOW, DENY, LITERAL, PREFIXED, RESOURCE_TYPES
from gateway.security.standard_authorizer import OPERATIONS, StandardAuthorizer
from kwire.cluster import Delta, Image, apply
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.uuid import Uuid
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.java_source import run_source

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("AskAuthorizer.java")
AUTHORIZERS, STEPS, QUESTIONS = 800, 25, 6
ASKED = [
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
]
HOSTS = ["10.0.0.1", "10.0.0.2", "::1"]


class Life:
    """kwire's authorizer, and the lines that bring Kafka's to the same state."""

    def __init__(self, rand: random.Random) -> None:
        self.lines: list[str] = []
        self.answers: list[bool] = []
        self._rand = rand
        self._image = Image()
        self._made = 0
        allow_everyone = rand.random() < 0.4
        self._say("NEW", str(allow_everyone).lower())
        self._ours = StandardAuthorizer(
            super_users=frozenset({"User:root"}), allow_everyone=allow_everyone
        )
        self._ours.on_update(None, self._image)

    def step(self) -> None:
        """Perhaps another ACL, perhaps one less, and questions."""
        chance = self._rand.random()
        if chance < 0.5:
            self._add()
        elif chance < 0.6 and self._image.acls:
            id = self._rand.choice(list(self._image.acls))
            self._commit(RemoveAccessControlEntryRecord(id=id))
            self._say("REMOVE", int.from_bytes(id[8:], "big"))
        for _ in range(QUESTIONS):
            self._ask()

    def _add(self) -> None:
        pick, number = self._rand.choice, self._made + 1
        kind, name = (
            RESOURCE_TYPES[pick(["TOPIC", "GROUP"])],
            self._name() if self._rand.random() < 0.8 else "*",
        )
        acl = AccessControlEntryRecord(
            id=Uuid((1 << 64 | number).to_bytes(16, "big")),
            resource_type=kind,
            resource_name=name,
            pattern_type=pick([LITERAL, PREFIXED]),
            principal=pick(["User:x", "User:y", "User:*", "Group:x"]),
            host=pick(["*", "10.0.0.1", "0:0:0:0:0:0:0:1"]),
            operation=OPERATIONS[pick([*ASKED, "ALL"])],
            permission_type=pick([ALLOW, ALLOW, DENY]),
        )
        about = (
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        if any(
            one.to_json(0) | {"id": None} == acl.to_json(0) | {"id": None}
            for one in self._image.acls.values()
        ):
            return  # no log has the same twice
        self._made += 1
        self._commit(acl)
        self._say("ADD", number, *about)

    def _commit(self, record: Message) -> None:
        delta = Delta(self._image)
        apply(delta.image, record)
        delta.commit()
        self._ours.on_update(delta, self._image)

    def _ask(self) -> None:
        pick = self._rand.choice
        user, host, operation, kind, name = (
            pick("xyz"),
            pick(HOSTS),
            pick(ASKED),
            pick(["TOPIC", "GROUP"]),
            self._name(),
        )
        user = "root" if self._rand.random() < 0.05 else user
        self._say("ASK", user, host, operation, kind, name)
        self.answers.append(self._ours.allows(f"User:{user}", host, operation, kind, name))

    def _name(self) -> str:
        """Not one that begins with "*", where Kafka does not heed the ACLs of every resource."""
        return self._rand.choice("ab-") + "".join(
            self._rand.choice("ab*-") for _ in range(self._rand.randint(0, 3))
        )

    def _say(self, *fields: Any) -> None:
        self.lines.append("\t".join(map(str, fields)))


def test_kafkas_authorizer_gives_the_same_decisions(tmp_path: Path) -> None:
    need_java()
    rand = random.Random(20)
    lives = [Life(rand) for _ in range(AUTHORIZERS)]
    for life in lives:
        for _ in range(rand.randint(1, STEPS)):
            life.step()
    questions = tmp_path / "questions.tsv"
    questions.write_text("".join(f"{line}\n" for life in lives for line in life.lines))
    kwires = "".join(str(int(answer)) for life in lives for answer in life.answers)
    kafkas = run_source(PROGRAM, str(questions)).strip()
    assert len(kwires) == len(kafkas) > 10_000 and 0.2 < kwires.count("1") / len(kwires) < 0.8
    assert sum(a != b for a, b in zip(kwires, kafkas, strict=True)) == 0
    FIGURES.append(f"the authorizer and Kafka's: {len(kwires)} questions answered alike")
