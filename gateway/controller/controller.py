"""The active controller of the quorum: a request and a moment in, records to be appended and an answer out. KIP-631.

It has a state of its own while its node leads: the committed image and, on top, what it proposed since, so that the next
request sees it. Losing leadership is letting go of that state. It knows neither the log nor who is committed when:

    operations = controller.activate(image, now_ms, transaction_open=...)   # all of the log up to the own epoch's start
    outcome = controller.handle(request, version, allows, now_ms)
    ...                                                                     # outcome.operation appended and committed
    outcome.answer                                                          # may be told now
    controller.deactivate()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.controller.activation import activation
from gateway.controller.allocate_producer_ids import allocate_producer_ids
from gateway.controller.alter_configs import alter_configs, incremental_alter_configs
from gateway.controller.alter_isr import alter_isr
from gateway.controller.alter_partition import alter_partition
from gateway.controller.assign_replicas_to_dirs import assign_replicas_to_dirs
from gateway.controller.broker_heartbeat import broker_heartbeat
from gateway.controller.brokers import unfenced
from gateway.controller.case import ANONYMOUS, Allows, Case, Verdict
from gateway.controller.client_quotas import alter_client_quotas
from gateway.controller.create_acls import create_acls
from gateway.controller.create_partitions import create_partitions
from gateway.controller.create_topics import create_topics
from gateway.controller.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from gateway.controller.delete_acls import delete_acls
from gateway.controller.delete_topics import delete_topics
from gateway.controller.elect_leaders import elect_leaders
from gateway.controller.errors import ApiError, Error
from gateway.controller.kraft import KRaft, Unmoved
from gateway.controller.list_reassignments import list_partition_reassignments
from gateway.controller.partition_index import Elections
from gateway.controller.periodic import Periodic
from gateway.controller.reassignments import alter_partition_reassignments
from gateway.controller.records import NO_OP_LEVEL, Operation, operation
from gateway.controller.refusals import refused
from gateway.controller.register_broker import register_broker
from gateway.controller.register_controller import register_controller
from gateway.controller.scram_credentials import alter_user_scram_credentials
from gateway.controller.sessions import Sessions
from gateway.controller.settings import ControllerSettings
from gateway.controller.state import State
from gateway.controller.unregister_broker import unregister_broker
from gateway.controller.update_features import update_features
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.no_op_record import NoOpRecord
from kwire.uuid import Uuid

_Area = Callable[[Any, Case], Verdict]
#: Which area decides on which request, and what Kafka calls the operation.
_AREAS: Final[dict[str, tuple[str, _Area]]] = {
    "AllocateProducerIdsRequest": ("allocateProducerIds", allocate_producer_ids),
    "AlterClientQuotasRequest": ("alterClientQuotas", alter_client_quotas),
    "AlterConfigsRequest": ("legacyAlterConfigs", alter_configs),
    "AlterIsrRequest": ("alterPartition", alter_isr),
    "AlterPartitionReassignmentsRequest": ("alterPartitionReassignments", alter_partition_reassignments),
    "AlterPartitionRequest": ("alterPartition", alter_partition),
    "AssignReplicasToDirsRequest": ("assignReplicasToDirs", assign_replicas_to_dirs),
    "ElectLeadersRequest": ("electLeaders", elect_leaders),
    "ListPartitionReassignmentsRequest": ("listPartitionReassignments", list_partition_reassignments),
    "AlterUserScramCredentialsRequest": ("alterUserScramCredentials", alter_user_scram_credentials),
    "CreateDelegationTokenRequest": ("createDelegationToken", create_delegation_token),
    "ExpireDelegationTokenRequest": ("expireDelegationToken", expire_delegation_token),
    "RenewDelegationTokenRequest": ("renewDelegationToken", renew_delegation_token),
    "CreateAclsRequest": ("createAcls", create_acls),
    "DeleteAclsRequest": ("deleteAcls", delete_acls),
    "BrokerHeartbeatRequest": ("processBrokerHeartbeat", broker_heartbeat),
    "BrokerRegistrationRequest": ("registerBroker", register_broker),
    "ControllerRegistrationRequest": ("registerController", register_controller),
    "CreatePartitionsRequest": ("createPartitions", create_partitions),
    "CreateTopicsRequest": ("createTopics", create_topics),
    "DeleteTopicsRequest": ("deleteTopics", delete_topics),
    "IncrementalAlterConfigsRequest": ("incrementalAlterConfigs", incremental_alter_configs),
    "UnregisterBrokerRequest": ("unregisterBroker", unregister_broker),
    "UpdateFeaturesRequest": ("updateFeatures", update_features),
}
_UNMOVED: Final = Unmoved()


@dataclass(frozen=True, slots=True)
class Outcome:
    """``operation`` is to be appended in this epoch or not at all; None where nothing changes.

    ``answer`` may be told once the operation is committed. Without one: once everything that was proposed before is, for it
    may speak of that; and, if it has to be ``sure``, once this node is known to have led when it decided.
    """

    operation: Operation | None
    answer: Message
    sure: bool = True


class Controller:
    """One node's. ``random`` gives so many random bytes, ``kraft`` is the quorum that elects it; its methods raise for a mistake
    of ours only, never for a request.

    After an exception the state may be half changed: leadership is to be given up, by the quorum too.
    """

    def __init__(self, settings: ControllerSettings, *, random: Callable[[int], bytes], kraft: KRaft = _UNMOVED) -> None:
        self.settings = settings
        self._random = random
        self._kraft = kraft
        self._kraft_proposed = 0
        self._state: State | None = None
        self._sessions = Sessions(settings.broker_session_timeout_ms)
        self._periodic = Periodic(settings, 0)
        self._next_offset = 0
        self._idle_since_ms = 0

    @property
    def is_active(self) -> bool:
        """Does it take requests?"""
        return self._state is not None

    @property
    def image(self) -> Image | None:
        """Committed and proposed; None while inactive. For tests and for those who must see what is not committed yet."""
        return None if self._state is None else self._state.image

    @property
    def elections(self) -> Elections:
        """What it has elected since it leads, as far as that was not from among those in sync."""
        return Elections() if self._state is None else self._state.elections

    def activate(
        self, image: Image, now_ms: int, *, steady_ms: int | None = None, transaction_open: bool = False
    ) -> list[Operation]:
        """Begin to lead, with the ``image`` of everything before this epoch. Returns what is to be appended first, in order.

        ``transaction_open``: the log before ended inside a metadata transaction. ``image`` is copied, not kept. Nothing may
        be handled before the whole log up to this epoch's start is in it (KAFKA-15345): a request would be decided on less.
        Every broker that serves has a whole session's time to find this node.

        Here and below ``now_ms`` is since the epoch, and ``steady_ms`` on a clock that never jumps, where there is another.
        """
        self._state = State(image)
        self._idle_since_ms = now_ms
        self._next_offset = image.next_offset
        self._kraft_proposed = 0
        steady_ms = now_ms if steady_ms is None else steady_ms
        self._sessions = Sessions(self.settings.broker_session_timeout_ms)
        for broker in unfenced(image):
            self._sessions.hear(broker, steady_ms)
        self._periodic = Periodic(self.settings, steady_ms)
        operations = activation(image, self.settings, transaction_open=transaction_open)
        for one in operations:
            self._apply(one)
        return operations

    def deactivate(self) -> None:
        """Leadership is gone: what was proposed and not committed is forgotten."""
        self._state = None

    def log_ends(self, next_offset: int) -> None:
        """The next record gets ``next_offset``, or a later one where the quorum writes something of its own before."""
        self._next_offset = max(self._next_offset, next_offset)

    def handle(
        self,
        request: Message,
        version: int,
        allows: Allows,
        now_ms: int,
        principal: str = ANONYMOUS,
        *,
        steady_ms: int | None = None,
    ) -> Outcome:
        """Decide on ``request`` of ``principal``, who may do what ``allows`` says. NOT_CONTROLLER while inactive."""
        state = self._state
        if state is None:
            return Outcome(None, refused(request, version, Error.NOT_CONTROLLER, "This node is not the active controller."))
        name, area = _AREAS[request.NAME]
        case = self._case(state, version, allows, now_ms, steady_ms, principal)
        try:
            verdict = area(request, case)
            decided = operation(name, verdict.records, case.level, atomic=verdict.atomic) if verdict.records else None
            if decided is not None and verdict.kraft_version is not None:
                decided = replace(decided, kraft_version=verdict.kraft_version)
        except ApiError as refusal:
            return Outcome(None, refused(request, version, refusal.error, refusal.message))
        if getattr(request, "validate_only", False):
            return Outcome(None, verdict.answer)
        if decided is not None:
            self._apply(decided)
            self._idle_since_ms = now_ms
        verdict.written(self._next_offset - 1)
        return Outcome(decided, verdict.answer, verdict.sure)

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`poll` has something to look at next, on the steady clock; None while inactive."""
        return None if self._state is None else self._periodic.deadline_ms

    def poll(self, now_ms: int, *, steady_ms: int | None = None) -> list[Operation]:
        """What is to be done without being asked: brokers whose session ended are fenced, one at a time, and the like."""
        operations: list[Operation] = []
        state, moment = self._state, now_ms if steady_ms is None else steady_ms
        for task in self._periodic.due(moment) if state is not None else ():
            assert state is not None
            case = self._case(state, 0, _by_itself, now_ms, moment, ANONYMOUS)
            records = task.run(case)
            if records:
                decided = operation(task.name, records, case.level, atomic=False)
                self._apply(decided)
                self._idle_since_ms = now_ms
                operations.append(decided)
            self._periodic.done(task, moment, found=bool(records))
        return operations

    def idle(self, now_ms: int) -> Operation | None:
        """A NoOpRecord when nothing was written for a while, so that consumers see that the log is alive (KIP-835)."""
        state, interval_ms = self._state, self.settings.max_idle_interval_ms
        if state is None or not interval_ms or now_ms - self._idle_since_ms < interval_ms:
            return None
        if state.image.metadata_version < NO_OP_LEVEL:
            return None
        return self.confirmation(now_ms)

    def confirmation(self, now_ms: int) -> Operation:
        """A NoOpRecord: once it is committed, this node was the leader when it was appended. Only while active."""
        assert self._state is not None, "only a leader asks whether it is one"
        self._idle_since_ms = now_ms
        self._next_offset += 1
        return operation("noOpRecord", [NoOpRecord()], self._state.image.metadata_version)

    def _apply(self, decided: Operation) -> None:
        assert self._state is not None
        for record in decided.records:
            self._state.apply(record.message)
        self._next_offset += decided.offsets
        self._kraft_proposed = max(self._kraft_proposed, decided.kraft_version or 0)

    def _case(self, state: State, version: int, allows: Allows, now_ms: int, steady_ms: int | None, principal: str) -> Case:
        moment = now_ms if steady_ms is None else steady_ms
        return Case(
            version, allows, now_ms, state, self.settings, self._dice, self._new_id,
            self._sessions, moment, self._next_offset, self._kraft, self._kraft_proposed, principal,
        )  # fmt: skip

    def _dice(self, below: int) -> int:
        return int.from_bytes(self._random(8), "big") % below

    def _new_id(self) -> Uuid:
        """A random id (version 4 of RFC 9562) that no topic has; none that a command line would take for an option."""
        assert self._state is not None
        while True:
            raw = bytearray(self._random(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            made = Uuid(raw)
            if made not in self._state.image.topics and not str(made).startswith("-"):
                return made


def _by_itself(operation: str, resource_type: str, name: str) -> bool:
    return True  # nobody asked
