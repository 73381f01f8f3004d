"""Runs readable scenarios of a quorum: a text of the acts of a test, the messages and the roles.

Lines of a transcript that are read (N: a node's id)::

    voters 1,2,3            nodes with static voters; "voters 1,2,3 dynamic": kraft.version 1
    non_electable 3         before node 3 boots: it votes and never campaigns
    observer 4  joiner 4    before node 4 boots: it does not vote; it adds itself as a voter
    boot 1,2,3              they start, from what is on their disks
    campaign 1              the time until node 1 stands for election, or gives one up, is over now
    tick                    on to the next moment at which some node has to do something
    run 2.5                 so many seconds go by; only what has changed at the end is written
    settle                  everything on its way arrives
    deliver 2               two messages on their way arrive, no more
    propose 1 a b           node 1's controller appends two batches
    upgrade 1   who 1       it wants kraft.version 1; whom node 1 counts as voters
    kill 1    shutdown 1    it dies; it is asked to end
    hang_up 1               its machine, which lives, closes its connections after it has died
    cut 1>2 3>1   heal      nothing passes from 1 to 2 and from 3 to 1; everything passes again
    stick 1   sync 1        its disk does nothing any more; it does all at once, and goes on
    snapshot 1 5            node 1 writes a snapshot that ends at offset 5, and drops the log below
    disk 1 epoch=3 leader=2 voted=1 log=0-3@1,4-9@2    what is on node 1's disk before it boots
    begin 2 leader=3 epoch=2    fetch 1 epoch=2 from=5@1 replica=2
    vote 2 candidate=9 epoch=5 log=9@4 pre-vote=yes
    add 1 voter=4   remove 1 voter=3   describe 1      requests from outside
    hush                    Fetches and their answers are not written any more

Everything else is written: ``>`` requests, ``<`` their answers, ``=`` what a node has become, ``!``
what it tells. ``#`` lines stay as they are.
"""

from __future__ import annotations

from typing import Any

from gateway.quorum import effects as fx
from gateway.quorum import requests
from gateway.quorum.effects import Report
from gateway.quorum.events import Cleaned, Propose, ShutDown, SnapshotWritten, Tick
from gateway.quorum.partition import Position
from gateway.quorum.requests import describe_quorum
from kwire.message import Message
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from tests.gateway.quorum import worldly
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, address, directory, voter_node
from tests.gateway.quorum.words import answer_text, node_text, request_text
from tests.gateway.quorum.world import Member, World

_WRITTEN = (">", "<", "=", "!")


def replay(text: str) -> str:
    """The transcript as the core makes it now."""
    script = Script()
    for line in text.splitlines():
        if not line.startswith(_WRITTEN):
            script.read(line)
    return "\n".join(script.written) + "\n"


class Script:
    """Reads commands, writes what comes of them."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.world = World()
        self.world.spy = self._spy
        self.voters: tuple[int, ...] = ()
        self.dynamic = False
        self.quiet = self.hushed = False
        self.was: dict[int, str] = {}
        self.proposals = 0

    def read(self, line: str) -> None:
        self.written.append(line)
        words = line.split()
        if not words or words[0] == "#":
            return
        getattr(self, f"do_{words[0]}")(*words[1:])
        self._write_changes()

    # --- nodes ---

    def do_voters(self, ids: str, dynamic: str = "") -> None:
        self.voters, self.dynamic = _ids(ids), dynamic == "dynamic"
        for id in self.voters:
            self._add(id)

    def do_non_electable(self, id: str) -> None:
        self._add(int(id), campaigns=False)

    def do_observer(self, id: str) -> None:
        self._add(int(id), bootstrap=self.voters)

    def do_joiner(self, id: str) -> None:
        self._add(int(id), bootstrap=self.voters, auto_join=True)

    def _add(self, id: int, **more: Any) -> None:
        if not self.dynamic:
            more["static"] = self.voters
        elif id in self.voters:
            more["formatted"] = self.voters
        self.world.add(id, **more)

    def do_disk(self, id: str, *parts: str) -> None:
        given = dict(part.partition("=")[::2] for part in parts)
        disk = self.world.members[int(id)].disk
        for span in filter(None, given.get("log", "").split(",")):
            place, _, epoch = span.partition("@")
            first, _, last = place.partition("-")
            disk.append(
                int(first), data_batch(int(first), int(last) - int(first) + 1, int(epoch), 0).data
            )
        if "epoch" in given:
            disk.state = fx.ElectionState(
                int(given["epoch"]), int(given.get("leader", -1)), int(given.get("voted", -1))
            )
        disk.high_watermark = int(given.get("hw", 0))

    def do_boot(self, ids: str) -> None:
        for id in _ids(ids):
            self.world.members[id].boot()

    def do_kill(self, id: str) -> None:
        self.world.members[int(id)].kill()

    def do_hang_up(self, id: str) -> None:
        self.world.hang_up(int(id))

    def do_shutdown(self, id: str) -> None:
        self.world.members[int(id)].step(ShutDown(5.0))

    def do_stick(self, id: str) -> None:
        self.world.members[int(id)].stuck = True

    def do_sync(self, id: str) -> None:
        self.world.members[int(id)].stuck = False
        self.world.members[int(id)].sync()

    def do_snapshot(self, id: str, end: str) -> None:
        member = self.world.members[int(id)]
        snapshot = worldly.take_snapshot(member, int(end))
        member.step(SnapshotWritten(snapshot))
        member.step(Cleaned(snapshot.end_offset, (snapshot,)))

    # --- time and network ---

    def do_campaign(self, id: str) -> None:
        member = self.world.members[int(id)]
        assert member.raft is not None
        worldly.run_out(member.raft, self.world.now)
        member.step(Tick())

    def do_tick(self) -> None:
        self.world.tick()

    def do_run(self, seconds: str) -> None:
        self.quiet = True
        self.world.run(float(seconds))
        self.quiet = False

    def do_settle(self) -> None:
        self.world.settle()

    def do_deliver(self, count: str) -> None:
        self.world.deliver(int(count))

    def do_cut(self, *links: str) -> None:
        for link in links:
            sender, _, receiver = link.partition(">")
            self.world.cut.add((int(sender), int(receiver)))

    def do_heal(self) -> None:
        self.world.cut.clear()

    def do_hush(self) -> None:
        self.hushed = True

    # --- requests ---

    def do_propose(self, id: str, *values: str) -> None:
        member = self.world.members[int(id)]
        assert member.raft is not None
        self._propose(
            id,
            member,
            Propose(self.proposals + 1, member.raft.epoch, [[value.encode()] for value in values]),
        )

    def do_upgrade(self, id: str) -> None:
        member = self.world.members[int(id)]
        assert member.raft is not None
        self._propose(id, member, Propose(self.proposals + 1, member.raft.epoch, [[b"no op"]], 1))

    def do_who(self, id: str) -> None:
        raft = self.world.members[int(id)].raft
        assert raft is not None
        voters = " ".join(f"{one.id}:{one.directory_id}" for one in raft.voters)
        self.written.append(f"! {id} kraft.version={raft.kraft_version} voters {voters}")

    def _propose(self, id: str, member: Member, event: Propose) -> None:
        self.proposals += 1
        member.step(event)
        match member.outcome[self.proposals]:
            case fx.Accepted(_, base_offset, end_offset):
                self.written.append(f"! {id} accepted {base_offset} to {end_offset}")
            case fx.Refused(_, _, reason):
                self.written.append(f"! {id} refused: {reason}")

    def _ask(self, to: str, message: Message, version: int) -> None:
        self.written.append(f"> outside -> {to} {request_text(message)}")
        self.world.request(
            int(to),
            message,
            version,
            lambda answer: self.written.append(f"< outside <- {to} {answer_text(answer)}"),
        )

    def do_vote(self, to: str, *parts: str) -> None:
        given = dict(part.partition("=")[::2] for part in parts)
        candidate = int(given["candidate"])
        request = requests.vote(
            2,
            cluster_id=CLUSTER,
            epoch=int(given["epoch"]),
            candidate=(candidate, directory(candidate)),
            voter=voter_node(int(to)),
            log_end=_position(given["log"]),
            pre_vote="pre-vote" in given,
        )
        self._ask(to, request, 2)

    def do_begin(self, to: str, *parts: str) -> None:
        given = dict(part.partition("=")[::2] for part in parts)
        leader = int(given["leader"])
        request = requests.begin_quorum_epoch(
            1,
            cluster_id=CLUSTER,
            epoch=int(given["epoch"]),
            leader_id=leader,
            voter=voter_node(int(to)),
            endpoints={LISTENER: address(leader)},
        )
        self._ask(to, request, 1)

    def do_fetch(self, to: str, *parts: str) -> None:
        given = dict(part.partition("=")[::2] for part in parts)
        replica = int(given.get("replica", -1))
        request = requests.fetch(
            17,
            cluster_id=given.get("cluster", CLUSTER),
            replica=(replica, directory(max(replica, 0))),
            epoch=int(given["epoch"]),
            log_end=_position(given["from"]),
            high_watermark=-1,
            max_wait_ms=int(given.get("wait", 0)),
            max_bytes=1 << 20,
        )
        self._ask(to, request, 17)

    def do_add(self, to: str, voter: str) -> None:
        id = int(voter.removeprefix("voter="))
        listeners = [Listener(name=LISTENER, host=address(id).host, port=address(id).port)]
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER,
            timeout_ms=5000,
            voter_id=id,
            voter_directory_id=directory(id),
            listeners=listeners,
        )
        self._ask(to, request, 1)

    def do_remove(self, to: str, voter: str) -> None:
        id = int(voter.removeprefix("voter="))
        self._ask(
            to,
            RemoveRaftVoterRequest(
                cluster_id=CLUSTER, voter_id=id, voter_directory_id=directory(id)
            ),
            0,
        )

    def do_describe(self, to: str) -> None:
        self._ask(to, describe_quorum(), 2)

    # --- what is written ---

    def _spy(self, kind: str, sender: int, receiver: int, message: Any) -> None:
        if self.quiet or (self.hushed and message.NAME in ("FetchRequest", "FetchResponse")):
            return
        if kind == ">":
            self.written.append(f"> {sender} -> {receiver} {request_text(message)}")
        else:
            self.written.append(f"< {receiver} <- {sender} {answer_text(message)}")

    def _write_changes(self) -> None:
        for id, effect in self.world.seen:
            if isinstance(effect, Report):
                fields = ", ".join(f"{name}={value}" for name, value in effect.fields.items())
                self.written.append(f"! {id} {effect.event}: {fields}")
        self.world.seen.clear()
        for id, member in self.world.members.items():
            if member.raft is None:
                self.was.pop(id, None)
                continue
            text = (
                f"stopped: {member.stopped}"
                if member.stopped
                else "done"
                if member.done
                else node_text(member.raft)
            )
            if self.was.get(id) != text:
                self.was[id] = text
                self.written.append(f"= {id} {text}")


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(id) for id in text.split(","))


def _position(text: str) -> Position:
    offset, _, epoch = text.partition("@")
    return Position(int(offset), int(epoch))
