"""Converts the state that a store read from its directory into the state that the raft core starts
from. ``gateway.log`` and ``gateway.quorum`` do not import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.quorum.effects import ElectionState
from gateway.quorum.settings import Stored
from gateway.quorum.voter_set import VoterSet

if TYPE_CHECKING:
    from gateway.log.metadata.stored_facts import StoredFacts


def stored(facts: StoredFacts) -> Stored:
    """Return offsets, epochs, vote and voters of a store."""
    election = facts.election
    return Stored(
        election=ElectionState(
            election.epoch, election.leader_id, election.voted_id, election.voted_directory_id
        ),
        start_offset=facts.start_offset,
        start_epoch=facts.start_epoch,
        end_offset=facts.end_offset,
        epochs=facts.epochs,
        snapshots=facts.snapshots,
        high_watermark=facts.high_watermark,
        voters=tuple((offset, VoterSet.of_record(record)) for offset, record in facts.voters),
        kraft_versions=facts.kraft_versions,
    )
