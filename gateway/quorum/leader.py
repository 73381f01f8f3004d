"""Who leads, as far as the answers said, and whom to ask next: the leader, or in turn everybody known.

Rules of ``KafkaRaftClient.maybeHandleCommonResponse`` (KIP-595): an epoch never goes back; within one, a leader that does
not answer as one is asked in turn with the others, until somebody names the next. Knows nothing of logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from gateway.address import Address
from gateway.quorum.errors import error_name

NO_LEADER: Final = -1

#: Addresses kept besides the bootstrap ones. A quorum has three or five voters.
_ADDRESSES_MAX: Final = 64
_HOST_MAX: Final = 255


class Said(NamedTuple):
    """What an answer says besides what was asked: who leads in which epoch, with which error, and where nodes listen."""

    leader_id: int
    epoch: int
    error: int
    endpoints: Sequence[Any]  #: with node_id, host, port


class Heard(NamedTuple):
    """What that means. ``changed``: the epoch or its leader is new to us, and to be remembered.

    ``problem``: why the rest of the answer is not to be used; "" when it is the leader's own, of our epoch.
    """

    changed: bool
    problem: str


class Leadership:
    """Epoch, leader and addresses; ``leader_id`` is NO_LEADER while nobody is known to lead ``epoch``."""

    __slots__ = ("_bootstrap", "_detour", "_turn", "addresses", "epoch", "leader_id")

    def __init__(self, bootstrap: tuple[Address, ...], epoch: int, leader_id: int, first: int) -> None:
        self._bootstrap = bootstrap
        self._turn = first
        self._detour = False
        self.epoch = epoch
        self.leader_id = leader_id
        self.addresses: dict[int, Address] = {}  #: node id -> where it was said, or found, to listen

    @property
    def leader_address(self) -> Address | None:
        """Where the leader listens, if both are known."""
        return self.addresses.get(self.leader_id)

    def candidates(self) -> list[Address]:
        """Everybody who may know the leader: the bootstrap addresses, then all that were learned."""
        return list(dict.fromkeys((*self._bootstrap, *self.addresses.values())))

    def target(self) -> tuple[Address, int]:
        """Whom to ask now: (address, id of the node expected there or -1)."""
        leader = self.leader_address
        if leader is not None and not self._detour:
            return leader, self.leader_id
        self._detour = False
        candidates = self.candidates()
        self._turn += 1
        address = candidates[self._turn % len(candidates)]
        if address == leader and len(candidates) > 1:
            self._turn += 1
            address = candidates[self._turn % len(candidates)]
        return address, NO_LEADER

    def hear(self, asked: Address, said: Said) -> Heard:
        """Take over what the answer of ``asked`` says of who leads."""
        error = error_name(said.error) if said.error else ""
        if said.epoch < self.epoch:  # or none is given at all
            behind = f"it knows epoch {said.epoch}, we know {self.epoch}"
            return Heard(False, f"{error}; {behind}" if error else behind)
        self.learn((node.node_id, node.host, node.port) for node in said.endpoints)
        if said.epoch > self.epoch:
            # A leader refuses another epoch than its own: whatever else stands there was not meant for what we asked.
            self._lead(said.epoch, said.leader_id)
            return Heard(True, error or f"it is of epoch {said.epoch}, which was not asked for")
        if said.leader_id < 0:
            return Heard(False, error or "it has no error, but its sender knows no leader")
        if self.leader_id not in (NO_LEADER, said.leader_id):
            problem = f"it says that {said.leader_id} leads epoch {said.epoch}, which {self.leader_id} was said to lead"
            self.leader_id = NO_LEADER  # neither is believed before it answers as a leader
            return Heard(False, problem)
        changed = self.leader_id == NO_LEADER
        if changed:
            self._lead(said.epoch, said.leader_id)
        if not error:
            self.addresses[said.leader_id] = asked  # which beats what it is said to advertise
        return Heard(changed, error)

    def doubt(self, asked: Address | None) -> None:
        """``asked`` was of no help: if it is the leader, somebody else is asked next, then the leader again."""
        self._detour = asked == self.leader_address

    def learn(self, endpoints: Iterable[tuple[int, str, int]], *, only_new: bool = False) -> None:
        """Take over addresses (node id, host, port) that an answer gave; what cannot be one is passed over.

        ``only_new``: those of known nodes stay, which may be where we found them and not what they advertise.
        """
        for node_id, host, port in endpoints:
            if node_id < 0 or not host or len(host) > _HOST_MAX or not 0 < port < 65536:
                continue
            if only_new and node_id in self.addresses:
                continue
            if len(self.addresses) >= _ADDRESSES_MAX and node_id not in self.addresses:
                self.addresses = {id: at for id, at in self.addresses.items() if id == self.leader_id}
            self.addresses[node_id] = Address(host, port)

    def _lead(self, epoch: int, leader_id: int) -> None:
        self.epoch = epoch
        self.leader_id = leader_id if leader_id >= 0 else NO_LEADER
        self._detour = False
