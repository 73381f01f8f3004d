"""Defines a set of voters as a value: ids, directory ids and endpoints, and its majority (KIP-853).

The voters of a static quorum have no directory ids. Every change returns a new set. Follows
Kafka's ``VoterSet``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.base.address import Address
from kwire.messages.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from kwire.uuid import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True)
class VoterNode:
    """One voter. ``directory_id`` is ZERO_UUID if it is unknown (static quorums);
    ``kraft_versions`` is the supported range.
    """

    id: int
    directory_id: Uuid = ZERO_UUID
    endpoints: Mapping[str, Address] = field(default_factory=dict)
    kraft_versions: tuple[int, int] = (0, 0)

    def is_key(self, id: int, directory_id: Uuid) -> bool:
        """Return whether the ids name this voter (``VoterSet.VoterNode.isVoter``). A voter without
        a directory id, in a static quorum, is named by its id alone.
        """
        # Not the other way round: a replica that names no directory may have the voter's id by
        # mistake, and its Fetch would acknowledge records for that voter.
        return self.id == id and self.directory_id in (ZERO_UUID, directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters by id."""

    nodes: Mapping[int, VoterNode]

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        """Return the set of ``nodes``. Raises ValueError if two have the same id."""
        # By id, so that the same voters give the same record, whichever node encodes it.
        ordered = sorted(nodes, key=lambda node: node.id)
        found = {node.id: node for node in ordered}
        # The voters are looked up by id, so the second one of an id would be lost and the majority
        # too small.
        if len(found) != len(ordered):
            raise ValueError("a voter id is there twice")
        return cls(found)

    @classmethod
    def of_record(cls, record: VotersRecord) -> VoterSet:
        """Return the set in a KRAFT_VOTERS record. Raises ValueError if two have the same id."""
        return cls.of(
            VoterNode(
                voter.voter_id,
                voter.voter_directory_id,
                {
                    endpoint.name: Address(endpoint.host, endpoint.port)
                    for endpoint in voter.endpoints
                },
                (
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def record(self) -> VotersRecord:
        """Return the set as a KRAFT_VOTERS record, version 0."""
        return VotersRecord(
            version=0,
            voters=[
                Voter(
                    voter_id=node.id,
                    voter_directory_id=node.directory_id,
                    endpoints=[
                        Endpoint(name=name, host=at.host, port=at.port)
                        for name, at in node.endpoints.items()
                    ],
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=node.kraft_versions[0],
                        max_supported_version=node.kraft_versions[1],
                    ),
                )
                for node in self
            ],
        )

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, id: object) -> bool:
        return id in self.nodes

    @property
    def majority(self) -> int:
        """The least number of voters that is more than half of them."""
        # Half of an even number is not enough: two halves could elect a leader each. Seeded bug in
        # tests/sim: ``majorities_are_counted_without_the_leader``.
        return len(self.nodes) // 2 + 1

    def has(self, id: int, directory_id: Uuid) -> bool:
        """Return whether the ids name a voter of this set."""
        node = self.nodes.get(id)
        # A node with a voter's id and another directory is an observer until it is added (KIP-853).
        # Seeded bug in tests/sim: ``another_disk_counts_for_the_voter``.
        return node is not None and node.is_key(id, directory_id)

    def with_node(self, node: VoterNode) -> VoterSet:
        """Return the set with ``node``, in place of the one with its id if there is one."""
        # A new set each time: requests in flight hold on to the one that they were built with.
        return VoterSet.of([*(other for other in self if other.id != node.id), node])

    def without(self, id: int) -> VoterSet:
        """Return the set without the voter of that id."""
        return VoterSet.of(other for other in self if other.id != id)
