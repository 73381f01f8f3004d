"""An observer of a KRaft quorum: follows its leader's log and says, effect by effect, what a copy of it takes.

This is the follower's side of KIP-595 (with the snapshots of KIP-630, the endpoints and directory ids of KIP-853, the high
watermark of KIP-1166) as ``KafkaRaftClient`` runs it for a node that never votes. Pure: the moment, the dice and every answer
arrive from outside. The driver calls :meth:`Observer.next`, carries the request, hands the answer to
:meth:`Observer.answered` and performs the effects in order before it calls ``next`` again. Knows no socket and no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from gateway.quorum import answers, sentences, voters
from gateway.quorum.answers import Nonsense
from gateway.quorum.asking import Asking
from gateway.quorum.divergence import ReplicatedLog
from gateway.quorum.effects import (
    Advance,
    Ask,
    Effect,
    Failure,
    FailureKind,
    LearnClusterId,
    Pause,
    Remember,
    SnapshotChunk,
    Stop,
    Tell,
)
from gateway.quorum.errors import ErrorCode, error_name
from gateway.quorum.facts import Facts
from gateway.quorum.introduction import DESCRIBE_CLUSTER, DESCRIBE_QUORUM, Introduction
from gateway.quorum.leader import NO_LEADER, Leadership, Said
from gateway.quorum.pacing import Pacing
from gateway.quorum.replica import Replica
from gateway.quorum.settings import ObserverSettings
from kwire.message import Message
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse

FETCH: Final = FetchRequest.API_KEY
FETCH_SNAPSHOT: Final = FetchSnapshotRequest.API_KEY

#: An answer without news is fruitless when it came before this part of the time that the leader may wait for some.
_EARLY: Final = 0.5


#: Different lines kept from being told twice.
_TOLD_MAX: Final = 64


class Observer:
    """One observer. What must outlive it is in its effects; it is born again from what they left behind."""

    def __init__(
        self,
        settings: ObserverSettings,
        log: ReplicatedLog,
        *,
        epoch: int,
        leader_id: int,
        high_watermark: int,
        dice: Callable[[], float],
    ) -> None:
        """``epoch`` and ``leader_id`` as remembered (0 and -1 at first), ``high_watermark`` as last made durable.

        ``log`` is read whenever a method is called. ``dice`` gives numbers from 0 to below 1.
        """
        if epoch < log.last_epoch:  # quorum-state was lost: the log knows the epoch better, though not who led it
            epoch, leader_id = log.last_epoch, NO_LEADER
        self._settings = settings
        self._leadership = Leadership(settings.bootstrap, epoch, leader_id, int(dice() * len(settings.bootstrap)))
        self._pacing = Pacing(settings.backoff_min_s, settings.backoff_max_s, dice)
        self._replica = Replica(log, high_watermark, history=settings.history)
        self._introduction = Introduction(settings)
        self._asking = Asking(settings, self._leadership, self._replica, self._introduction)
        self._asked: Ask | None = None
        self._asked_at = -math.inf
        self._last_answer_at: float | None = None
        self._stopped: str | None = None
        self._told: set[tuple[str, ...]] = set()
        self._handlers: Mapping[int, Callable[[Ask, Any, float], list[Effect]]] = {
            FETCH: self._fetched,
            FETCH_SNAPSHOT: self._snapshot_fetched,
            DESCRIBE_CLUSTER: self._cluster_described,
            DESCRIBE_QUORUM: self._quorum_described,
        }

    @property
    def facts(self) -> Facts:
        """How things stand now."""
        download = self._replica.download
        return Facts(
            leader_id=self._leadership.leader_id,
            leader_address=self._leadership.leader_address,
            epoch=self._leadership.epoch,
            leader_high_watermark=self._replica.told_high_watermark,
            high_watermark=self._replica.high_watermark,
            voters=self._introduction.voters,
            cluster_id=self._introduction.cluster_id,
            last_answer_at=self._last_answer_at,
            snapshot=(download.id, download.position, download.size or 0) if download else None,
            failures=self._pacing.failures,
            stopped=self._stopped,
        )

    def next(self, now: float) -> Ask | Pause:
        """What to do at ``now`` (monotonic seconds): ask somebody, or rest. An ask that is still open is given up."""
        if self._stopped is not None:
            return Pause(math.inf)
        self._settle(now)
        if now < self._pacing.not_before:
            return Pause(self._pacing.not_before)
        self._asked_at = now
        self._asked = self._asking.ask(now)
        return self._asked

    def answered(self, ask: Ask, response: Message, version: int, now: float) -> list[Effect]:
        """The effects of an answer to ``ask`` at ``version``, to be performed in this order. Never raises.

        Only the last ask can be answered, and once: what a late or repeated answer says may have been true before a
        truncation and an election.
        """
        if not self._is_open(ask):
            return []
        try:
            return self._handlers[ask.api_key](ask, response, now)
        except Nonsense as nonsense:
            return self._not_used(ask, nonsense, now)

    def failed(self, ask: Ask, failure: Failure, now: float) -> list[Effect]:
        """No answer came to ``ask``. A snapshot on its way waits until the leader points to it again."""
        if not self._is_open(ask):
            return []
        if failure.kind is FailureKind.UNSUPPORTED_VERSION and ask.api_key in (DESCRIBE_CLUSTER, DESCRIBE_QUORUM):
            return []  # controllers before 3.7 do not answer everything: done without
        self._replica.interrupt()
        self._leadership.doubt(ask.address)
        if failure.kind is FailureKind.UNAUTHORIZED:
            return self._denied(now, ask, sentences.not_authenticated(ask.address, failure.text))
        told = self._tell("request-failed", address=str(ask.address), kind=failure.kind.value, reason=failure.text)
        return self._rest(now, told)

    def rejected(self, reason: str, now: float) -> list[Effect]:
        """The log could not take one of the last effects (a CRC, a footer, the disk); those behind it were not performed.

        Any of them may have been that one, so the epoch is to be remembered again.
        """
        effects = self._replica.rejected()
        if self._stopped is not None:
            return [*effects, Stop(self._stopped)]
        known = self._leadership
        self._asked = None
        known.doubt(known.leader_address)
        remember = Remember(known.epoch, known.leader_id)
        return self._rest(now, [remember, *effects, *self._tell("answer-rejected", reason=reason)])

    def learn_voters(self, ids: Collection[int]) -> list[Effect]:
        """The quorum's voters, from wherever they are known. Stops when our replica id is one of them."""
        if self._stopped is not None:
            return []
        self._introduction.voters = frozenset(ids)
        refusal = voters.refusal(self._settings.replica_id, self._introduction.voters)
        return self._stop(refusal) if refusal else []

    def described(self, response: DescribeQuorumResponse) -> list[Effect]:
        """A leader's DescribeQuorum answer, whoever asked for it: its voters and where they listen."""
        ids = voters.voters_described(response)
        if ids is None:
            return []
        self._leadership.learn(voters.endpoints_described(response), only_new=True)
        return self.learn_voters(ids)

    def learn_cluster_id(self, cluster_id: str) -> list[Effect]:
        """The cluster's id as a controller gave it. Stops when the local log is another cluster's."""
        known = self._introduction.cluster_id
        if not cluster_id or cluster_id == known or self._stopped is not None:
            return []
        if known is not None:
            return self._stop(sentences.other_cluster(known, cluster_id))
        self._introduction.cluster_id = cluster_id
        return [LearnClusterId(cluster_id)]

    # Asking.

    def _settle(self, now: float) -> None:
        """Look whether the last effects did to the log what they said: that is what counts as progress."""
        moved = self._replica.settle()
        if moved:
            self._progress()
        elif moved is False:
            self._pacing.fruitless(now)

    def _is_open(self, ask: Ask) -> bool:
        """Is ``ask`` the one to be answered now? It no longer is, then."""
        if ask is not self._asked or self._stopped is not None:
            return False
        self._asked = None
        self._replica.performed()
        return True

    # Answers.

    def _fetched(self, ask: Ask, response: FetchResponse, now: float) -> list[Effect]:
        if response.error_code:
            return self._refused(ask, response.error_code, now)
        partition = answers.fetched_partition(response)
        leader = partition.current_leader
        said = Said(leader.leader_id, leader.leader_epoch, partition.error_code, response.node_endpoints)
        patient = now - self._asked_at >= self._settings.max_wait_ms / 1000 * _EARLY
        return self._heard(
            ask, said, lambda: self._replica.take(partition, self._leader_name(ask), self._leadership.epoch), patient, now
        )

    def _snapshot_fetched(self, ask: Ask, response: FetchSnapshotResponse, now: float) -> list[Effect]:
        if response.error_code:
            return self._refused(ask, response.error_code, now)
        partition = answers.snapshot_partition(response)
        leader = partition.current_leader
        said = Said(leader.leader_id, leader.leader_epoch, partition.error_code, response.node_endpoints)
        return self._heard(ask, said, lambda: self._replica.take_chunk(partition), False, now)

    def _cluster_described(self, ask: Ask, response: DescribeClusterResponse, now: float) -> list[Effect]:
        if response.error_code or not response.cluster_id:
            return self._tell("cluster-id-unknown", reason=sentences.no_cluster_id(ask.address, response.error_code))
        return self.learn_cluster_id(response.cluster_id)

    def _quorum_described(self, ask: Ask, response: DescribeQuorumResponse, now: float) -> list[Effect]:
        if voters.voters_described(response) is None:
            error = response.error_code or ErrorCode.NOT_LEADER_OR_FOLLOWER
            return self._tell("voters-unknown", reason=sentences.no_voters(ask.address, error, self._settings.replica_id))
        return self.described(response)

    def _heard(self, ask: Ask, said: Said, take: Callable[[], list[Effect]], patient: bool, now: float) -> list[Effect]:
        """First who leads, remembered before anything else; then, if the answer is the leader's own, what it brings."""
        heard = self._leadership.hear(ask.address, said)
        effects = self._adopted(now) if heard.changed else []
        if self._stopped is not None or (heard.problem and heard.changed):
            return effects
        if heard.problem:
            return self._turned_away(ask, heard.problem, now)
        try:
            return effects + self._taken(take(), patient, now)
        except Nonsense as nonsense:
            return effects + self._not_used(ask, nonsense, now)

    def _adopted(self, now: float) -> list[Effect]:
        """The effects of a later epoch, or of a leader for ours. No two nodes have the same bytes in a snapshot."""
        known = self._leadership
        refusal = voters.refusal(self._settings.replica_id, {known.leader_id})
        if refusal is not None:
            return self._stop(refusal)
        if known.leader_id == NO_LEADER:
            self._pacing.fruitless(now)
        else:
            self._pacing.leader_named(now)
        address = str(known.leader_address) if known.leader_address else None
        told = Tell("leader-changed", {"epoch": known.epoch, "leader": known.leader_id, "address": address})
        return [Remember(known.epoch, known.leader_id), *self._replica.abandon(), told]

    def _taken(self, brought: list[Effect], patient: bool, now: float) -> list[Effect]:
        """What the leader's answer brought to the replica, and whether that was news. ``patient``: it waited for some."""
        self._last_answer_at = now
        for effect in brought:
            if isinstance(effect, Stop):
                return self._stop(effect.reason)
        if self._replica.awaiting:
            pass  # the next look at the log tells whether it moved
        elif patient or any(isinstance(effect, Advance) for effect in brought):
            self._progress()
        elif not any(isinstance(effect, SnapshotChunk) for effect in brought):
            self._pacing.fruitless(now)
        recorded = self._replica.voters
        if recorded is not None and recorded != self._introduction.voters:
            return brought + self.learn_voters(recorded)
        return brought

    def _refused(self, ask: Ask, error: int, now: float) -> list[Effect]:
        """An answer that is nothing but an error."""
        ours = self._introduction.cluster_id
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID and ours is not None:
            return self._stop(sentences.other_cluster(ours, None, ask.address))
        if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return self._denied(now, ask, sentences.not_authorized(ask.address, self._settings.principal))
        return self._turned_away(ask, error_name(error), now)

    def _turned_away(self, ask: Ask, reason: str, now: float) -> list[Effect]:
        """The answer is of no use: next time somebody else is asked, or the leader for its log instead of a snapshot."""
        told = self._tell("turned-away", address=str(ask.address), reason=reason)
        if ask.api_key == FETCH_SNAPSHOT:
            return self._rest(now, [*self._replica.abandon(), *told])
        self._leadership.doubt(ask.address)
        self._replica.interrupt()
        return self._rest(now, told)

    def _not_used(self, ask: Ask, nonsense: Nonsense, now: float) -> list[Effect]:
        """The answer breaks a rule: it is left alone as a whole."""
        self._leadership.doubt(ask.address)
        told = self._tell("answer-not-used", address=str(ask.address), reason=str(nonsense))
        return self._rest(now, [*self._replica.abandon(), *told])

    def _denied(self, now: float, ask: Ask, sentence: str) -> list[Effect]:
        """Somebody must repair something first; until then what is committed goes on being served."""
        effects = [*self._replica.abandon(), *self._tell("denied", address=str(ask.address), reason=sentence)]
        self._pacing.fruitless(now, at_least=self._settings.denied_backoff_s)
        return effects

    def _rest(self, now: float, effects: list[Effect]) -> list[Effect]:
        self._pacing.fruitless(now)
        return effects

    def _progress(self) -> None:
        self._pacing.progress()
        self._told.clear()

    def _stop(self, reason: str) -> list[Effect]:
        self._stopped = reason
        return [Stop(reason)]

    def _tell(self, event: str, **fields: Any) -> list[Effect]:
        """A line for the log, once until there is progress: what fails does so every second."""
        line = (event, *map(str, fields.values()))
        if line in self._told:
            return []
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told.add(line)
        return [Tell(event, fields)]

    def _leader_name(self, ask: Ask) -> str:
        return f"leader {self._leadership.leader_id} ({ask.address})"
