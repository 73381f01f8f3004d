"""Who acts for the leader: when it begins, when it answers, and what becomes of requests when it is
over.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.address import Address
from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.handlers.context import PendingResponse
from gateway.ports import Requester
from gateway.quorum.events import Propose
from gateway.security.authorizer import AllowAll
from gateway.security.principal import Principal, decode_principal
from gateway.server import event_queue
from gateway.server.controller import acting_controller, waiting_requests
from gateway.server.controller import controller_forwarder as passing_on
from gateway.server.controller.acting_controller import ActingController
from gateway.server.controller.changes import Changes
from gateway.server.leadership import Leadership
from gateway.server.logs import Reports
from gateway.views.audit import Change
from kwire.cluster import Image
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.controller_registration_request import ControllerRegistrationRequest
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.protocol import ErrorCode
from kwire.records import decode_metadata_record
from tests.gateway.server.harness import run, until
from tests.gateway.server.scripted_raft import HOW
from tests.gateway.server.upstream_peer import API_VERSIONS, Asked, Node, listening

CREATE_TOPICS, VERSION, ENVELOPE, REGISTRATION = 19, 7, 58, 70
OFFER = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, max_version=newest)
        for key, newest in ((18, 4), (CREATE_TOPICS, 7), (ENVELOPE, 0), (REGISTRATION, 0))
    ]
)
ASKER = Requester("User:alice", "10.0.0.7", "test")


@pytest.fixture(autouse=True)
def one_slice_for_each_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests run no task that continues a decision."""
    monkeypatch.setattr(event_queue, "SLICE_S", 60.0)


class FakeRaft:
    """``leads_until``: how long nobody else can have been elected; for ever where this node is the
    only voter.
    """

    node_id, leader_id, epoch, kraft_version = 1, -1, 0, 0
    leads_until = math.inf
    refusal: str | None = None  #: why its kraft.version does not rise

    def upgrade_refusal(self, version: int) -> str | None:
        return self.refusal

    class voters:
        nodes = (1,)

    class log:
        end_offset = 0


class FakeDriver:
    """Writes down what it is given. ``done``: the core's turn for what waits: appended, unless it
    was to resign before.
    """

    def __init__(self) -> None:
        self.raft = FakeRaft()
        self.proposed: list[Propose] = []
        self.resigned: list[tuple[int, str]] = []
        self._number = 0

    def number(self) -> int:
        self._number += 1
        return self._number

    def submit(self, event: Any) -> None:
        assert isinstance(event, Propose), event
        self.proposed.append(event)

    def resign(self, epoch: int, reason: str) -> None:
        self.resigned.append((epoch, reason))


class FakeKeeper:
    def __init__(self) -> None:
        self.image, self.loaded, self.read_offset, self.in_transaction = Image(), True, 0, False
        self.next_offset: float = (
            math.inf
        )  #: of the image; it is quick, but where a test says otherwise
        self.problem: str | None = None


class Waiting(PendingResponse):
    """Who asked, as a connection does: ``answer`` is what came."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        super().__init__()
        self.answer: Any = None
        self.attach(self._take)

    def _take(self, answer: Any) -> None:
        self.answer = answer


class Stage:
    """A controller to act, and everybody around it."""

    def __init__(self, account: Any = None) -> None:
        self.driver, self.keeper, self.reports = FakeDriver(), FakeKeeper(), Reports()
        self.address: Address | None = None
        self.made: list[Controller] = []
        self.epochs: dict[int, int] = {}  # of what is committed, by offset
        self.acting = ActingController(
            self._make,
            cast(Any, self.driver),
            cast(Any, self.keeper),
            AllowAll(),
            lambda: self.address,
            HOW,
            self.reports,
            Changes(1, self.reports, account, lambda offset: self.epochs.get(offset, -1)),
        )
        self._end = 1

    def _make(self, serving: Sequence[int]) -> Controller:
        settings = ControllerSettings(1, tuple(serving), max_idle_interval_ms=0)
        made = Controller(settings, random=random.Random(1).randbytes, kraft=self.driver.raft)
        self.made.append(made)
        return made

    def lead(self, epoch: int = 1) -> None:
        """Elected, and everything before is in the image; the activation records are committed."""
        self.driver.raft.leader_id = 1
        self.acting.leading(epoch, self._end - 1)
        self.keeper.read_offset = self._end
        self.acting.image_advanced()
        self.commit()

    def accept(self) -> None:
        """The core appended all that was proposed."""
        for event in self.driver.proposed:
            self._end += sum(len(batch) for batch in event.batches) + (
                2 if event.kraft_version else 0
            )
            self.acting.accepted(event.number, self._end)
        self.driver.proposed.clear()

    def commit(self) -> None:
        self.accept()
        self.acting.committed(self._end)

    def ask(self, *names: str, **options: Any) -> Waiting:
        """A topic is to be created."""
        pending = Waiting()
        self.acting.submit(create(*names, **options), VERSION, ASKER, pending)
        return pending

    def proposed_topics(self) -> list[str]:
        values = [
            value for event in self.driver.proposed for batch in event.batches for value in batch
        ]
        records: list[Any] = [decode_metadata_record(value)[2] for value in values]
        return [record.name for record in records if record.NAME == "TopicRecord"]


def create(*names: str, **options: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, **options)


def error_of(pending: Waiting) -> int:
    """The code of the answer's first topic."""
    return int(pending.answer.topics[0].error_code)


def message_of(pending: Waiting) -> str:
    return str(pending.answer.topics[0].error_message)


def test_acting_controller_implements_leadership() -> None:
    acting: Leadership = Stage().acting
    assert acting is not None


# --- beginning to lead
# -------------------------------------------------------------------------------------------------


def test_new_leader_decides_nothing_before_the_image_has_the_start_of_its_epoch() -> None:
    """KAFKA-15345, 16286, 17333."""
    stage = Stage()
    stage.driver.raft.leader_id = 1
    stage.acting.leading(3, 10)
    pending = stage.ask("a")
    for read in (0, 9, 10):
        stage.keeper.read_offset = read
        stage.acting.image_advanced()
        assert (stage.acting.is_active, stage.driver.proposed) == (False, [])
    stage.keeper.read_offset = 11
    stage.keeper.loaded = False
    stage.acting.image_advanced()
    assert not stage.acting.is_active, "an image that is not whole counts for nothing"
    stage.keeper.loaded = True
    stage.acting.image_advanced()
    assert stage.acting.is_active
    assert [event.epoch for event in stage.driver.proposed] == [3, 3]
    assert stage.proposed_topics() == ["a"]
    stage.commit()
    assert error_of(pending) == 0


def test_new_leader_whose_image_is_complete_is_active_at_once() -> None:
    stage = Stage()
    stage.keeper.read_offset = 1
    stage.acting.leading(1, 0)
    assert (stage.acting.is_active, stage.acting.activations) == (True, 1)
    stage.acting.image_advanced()
    assert stage.acting.activations == 1


def test_controller_that_fails_to_become_active_resigns() -> None:
    stage = Stage()
    stage.acting._make = _broken
    stage.keeper.read_offset = 1
    stage.acting.leading(4, 0)
    assert not stage.acting.is_active
    [(epoch, reason)] = stage.driver.resigned
    assert epoch == 4 and "a bug of this server" in reason
    assert stage.reports.counts["controller activation failed"] == 1


def _broken(serving: Sequence[int]) -> Any:
    raise ValueError("no such record")


# --- answers
# -------------------------------------------------------------------------------------------------------------


def test_response_waits_until_its_records_are_committed() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    assert not pending.done
    stage.accept()
    assert not pending.done
    stage.acting.committed(stage._end - 1)
    assert not pending.done, "its last record is not committed"
    stage.acting.committed(stage._end)
    assert error_of(pending) == 0


def test_response_waits_until_the_image_has_the_topic() -> None:
    stage = Stage()
    stage.lead()
    stage.keeper.next_offset = stage._end
    first = stage.ask("a")
    stage.commit()
    between = stage._end
    second = stage.ask("b")
    stage.commit()
    assert not first.done, "it is committed, and a list of topics does not have it yet"
    stage.keeper.next_offset = between
    stage.acting.image_advanced()
    assert (first.done, second.done) == (True, False)
    stage.acting.not_leading(1)
    assert not second.done, "it is committed, whoever leads now"
    stage.keeper.problem = "a record that nobody can read"
    stage.acting.image_advanced()
    assert (error_of(first), error_of(second)) == (0, 0)


def test_responses_are_sent_in_order_after_the_records_they_depend_on() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("a")
    assert len(stage.driver.proposed) == 1, "the second is refused: the topic is about to exist"
    assert not second.done, "should the first not be committed, the topic does not exist"
    stage.commit()
    assert (error_of(first), error_of(second)) == (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert error_of(stage.ask("a")) == ErrorCode.TOPIC_ALREADY_EXISTS, (
        "nothing is on its way: it is answered at once"
    )


def test_each_request_is_answered_when_its_own_records_are_committed() -> None:
    stage = Stage()
    stage.lead()
    first = stage.ask("a")
    stage.accept()
    end = stage._end
    second = stage.ask("b")
    stage.accept()
    stage.acting.committed(end)
    assert (first.done, second.done) == (True, False)
    stage.acting.committed(stage._end)
    assert second.done


def test_cancelled_request_is_not_answered_and_others_are() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    first.cancel()
    stage.commit()
    assert (first.done, second.done) == (False, True)


# --- leadership is lost
# --------------------------------------------------------------------------------------------------


def test_appended_change_of_a_deposed_leader_times_out_with_unknown_outcome() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    stage.accept()
    stage.acting.not_leading(1)
    assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT
    assert "not known" in message_of(pending)
    assert not stage.acting.is_active


def test_change_that_was_not_appended_is_forwarded_to_the_next_leader() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    stage.acting.not_leading(1)
    assert not pending.done
    stage.driver.proposed.clear()
    stage.lead(2)
    assert error_of(pending) == 0


def test_end_of_another_epoch_changes_nothing() -> None:
    stage = Stage()
    stage.lead(2)
    stage.acting.not_leading(1)
    assert stage.acting.is_active


def test_leader_elected_again_decides_on_committed_state_only() -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a")
    stage.accept()
    stage.acting.not_leading(1)
    stage.keeper.image = Image(features={"metadata.version": 30})
    stage.lead(2)
    pending = stage.ask("a")
    assert stage.proposed_topics() == ["a"], "the first was never committed"
    stage.commit()
    assert error_of(pending) == 0


def test_proposal_refused_for_lost_leadership_is_decided_by_the_next_leader() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    stage.acting.refused(stage.driver.proposed[0].number, True, "node 2 leads epoch 2")
    stage.acting.refused(stage.driver.proposed[1].number, True, "node 2 leads epoch 2")
    assert not stage.acting.is_active
    assert (first.done, second.done, stage.driver.resigned) == (False, False, [])


def test_unwritable_proposal_is_refused_once_and_the_leader_resigns() -> None:
    """KAFKA-14996: over and over it would end one leader after the other."""
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    stage.acting.refused(stage.driver.proposed[0].number, False, "a batch of 9000000 bytes")
    assert error_of(first) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a batch of 9000000 bytes" in message_of(first)
    assert stage.driver.resigned == [(1, "a batch of 9000000 bytes")]
    assert not second.done
    stage.driver.proposed.clear()
    stage.lead(2)
    assert error_of(second) == 0


def test_exception_in_a_decision_fails_the_request_and_the_leader_resigns() -> None:
    stage = Stage()
    stage.lead()
    waiting = stage.ask("a")
    stage.made[0].decide = _fails  # type: ignore[method-assign]
    pending = stage.ask("b")
    assert error_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not stage.acting.is_active
    [(epoch, reason)] = stage.driver.resigned
    assert epoch == 1 and "half of it" in reason
    assert stage.reports.counts["controller request failed"] == 1
    assert not waiting.done, "not appended: the next leader decides"


def _fails(*what: Any, **how: Any) -> Any:
    raise KeyError("half of it")


# --- while nobody leads
# ------------------------------------------------------------------------------------------------------


def test_request_without_a_leader_waits() -> None:
    stage = Stage()
    laters = [stage.ask(name) for name in "abc"]
    laters[1].cancel()
    assert not any(pending.done for pending in laters)
    stage.lead()
    stage.commit()
    assert [error_of(laters[0]), error_of(laters[2])] == [0, 0]
    assert not laters[1].done
    assert "b" not in stage.made[0].image.topic_ids  # type: ignore[union-attr]


def test_cancelled_requests_do_not_count_against_the_limit_of_waiting_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_requests, "_WAITING_MAX", 3)
    stage = Stage()
    laters = [stage.ask(name) for name in "abc"]
    refused = stage.ask("d")
    assert error_of(refused) == ErrorCode.NOT_CONTROLLER
    laters[0].cancel()
    laters[1].complete(CreateTopicsResponse())  # its time was up
    assert not stage.ask("e").done
    assert not stage.ask("f").done
    assert stage.ask("g").done


# --- passed on
# ----------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def acting(stage: Stage) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.acting.run)
        yield
        nursery.cancel_scope.cancel()


def follow(stage: Stage, port: int, leader_id: int = 2) -> None:
    stage.driver.raft.leader_id, stage.address = leader_id, Address("127.0.0.1", port)


def answering(*errors: int) -> Callable[[Node], Any]:
    """A leader that answers CreateTopics with these errors, one after the other; the last one again
    and again.
    """
    rest = list(errors)

    async def script(node: Node) -> None:
        await node.greet(OFFER)
        while True:
            asked = await node.next()
            code = rest.pop(0) if len(rest) > 1 else rest[0]
            await node.send(asked.answer(answer_to(asked, code)))

    return script


def inside(asked: Asked) -> tuple[Any, CreateTopicsRequest]:
    """Header and body of the request in an envelope."""
    assert asked.key == ENVELOPE
    data = bytes(asked.message.request_data)
    header, at = decode_request_header(data)
    return header, CreateTopicsRequest.decode(data[at:], VERSION)


def answer_to(asked: Asked, code: int) -> EnvelopeResponse:
    """As a controller of Kafka: that another node is the controller is said outside."""
    if code == ErrorCode.NOT_CONTROLLER:
        return EnvelopeResponse(error_code=code)
    header, request = inside(asked)
    body = CreateTopicsResponse(
        topics=[CreatableTopicResult(name=one.name, error_code=code) for one in request.topics]
    )
    head = encode_response_header(CREATE_TOPICS, VERSION, header.correlation_id)
    return EnvelopeResponse(response_data=head + body.encode(VERSION))


def refusing(code: int, data: bytes | None = None) -> Callable[[Node], Any]:
    """A leader that opens no envelope."""

    async def script(node: Node) -> None:
        await node.greet(OFFER)
        while True:
            asked = await node.next()
            await node.send(asked.answer(EnvelopeResponse(error_code=code, response_data=data)))

    return script


async def silent(node: Node) -> None:
    await node.greet(OFFER)
    while True:
        await node.next()


def test_client_request_is_forwarded_to_the_leader_in_an_envelope() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(ErrorCode.INVALID_PARTITIONS)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a", validate_only=True)
            await until(lambda: pending.done)
            assert error_of(pending) == ErrorCode.INVALID_PARTITIONS
            [asked] = [one for one in leader.seen if one.key != API_VERSIONS]
            header, request = inside(asked)
            assert (header.request_api_version, request) == (
                VERSION,
                create("a", validate_only=True),
            )
            assert header.client_id == "test", "it is the client's request, not this node's"
            assert decode_principal(asked.message.request_principal) == Principal("User:alice")
            assert asked.message.client_host_address == bytes([10, 0, 0, 7])

    run(main)


def test_request_of_a_node_is_forwarded_without_an_envelope() -> None:
    async def main() -> None:
        stage = Stage()

        async def takes(node: Node) -> None:
            await node.greet(OFFER)
            await node.send((await node.next()).answer(ControllerRegistrationResponse()))

        async with listening(takes) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = Waiting()
            stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, pending)
            await until(lambda: pending.done)
            assert leader.seen[-1].key == REGISTRATION
            assert stage.acting.forwarding.forwarded == 0

    run(main)


@pytest.mark.parametrize(("code", "unauthorized"), [(31, 1), (97, 0), (42, 0), (35, 0), (999, 0)])
def test_forwarding_refused_by_the_leader_is_an_error_of_this_server(
    code: int, unauthorized: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(refusing(code)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until(lambda: pending.done)
            assert error_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
            assert stage.acting.forwarding.unauthorized == unauthorized
            assert stage.reports.counts["forwarding refused"] == 1

    run(main)
    assert "CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().err or not unauthorized


@pytest.mark.parametrize("data", [None, b"", b"junk", bytes(12)])
def test_undecodable_envelope_response_times_out_with_unknown_outcome(data: bytes | None) -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(refusing(0, data)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until(lambda: pending.done)
            assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT, "it may have been carried out"

    run(main)


def test_forwarded_requests_are_counted_and_timed() -> None:
    async def main() -> None:
        stage = Stage()
        measures = stage.acting.forwarding
        async with listening(silent) as paused, listening(answering(0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, paused.port)
            first, second = stage.ask("a"), stage.ask("b")
            await until(lambda: len(paused.seen) == 2)
            assert (measures.queue_length, dict(measures.waiting)) == (2, {"test": 2})
            assert (measures.forwarded, measures.remote.percentile(0.99)) == (1, None)
            first.cancel()
            second.cancel()
            follow(stage, leader.port, leader_id=3)
            third = stage.ask("c")
            await until(lambda: third.done)
            assert (
                measures.remote.percentile(0.5) is not None
                and measures.queue.percentile(0.999) is not None
            )
            await until(lambda: measures.queue_length == 0)
            assert not measures.waiting

    run(main)


# --- who changed what
# -----------------------------------------------------------------------------------------------------


def test_committed_change_is_logged_with_its_requester_and_offsets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a", "b")
    end = stage._end
    stage.accept()
    assert "metadata changed" not in capsys.readouterr().err, "it is not committed"
    stage.acting.committed(stage._end)
    said = capsys.readouterr().err
    told = ("api=CreateTopics", "principal=User:alice", "host=10.0.0.7", "client_id=test")
    assert all(one in said for one in (*told, f"offset={end}", f"last_offset={stage._end - 1}")), (
        said
    )
    assert stage.reports.counts["metadata changed"] == 1


def test_kraft_version_upgrade_is_proposed_with_its_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    stage.lead()
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
    pending = Waiting()
    stage.driver.raft.refusal = "voter 2 is not known"
    stage.acting.submit(UpdateFeaturesRequest(feature_updates=[update]), 2, ASKER, pending)
    assert (
        pending.answer.error_code == ErrorCode.INVALID_UPDATE_VERSION and not stage.driver.proposed
    )
    stage.driver.raft.refusal, pending, end = None, Waiting(), stage._end
    stage.acting.submit(UpdateFeaturesRequest(feature_updates=[update]), 2, ASKER, pending)
    [proposed] = stage.driver.proposed
    assert (proposed.kraft_version, list(map(len, proposed.batches))) == (1, [1])
    stage.accept()
    assert pending.answer is None
    stage.acting.committed(end + 2)  # the control records are, the answer's own is not
    assert pending.answer is None
    stage.acting.committed(end + 3)
    assert pending.answer.error_code == 0  # type: ignore[attr-defined]
    assert f"offset={end}" in capsys.readouterr().err


def test_requests_without_records_and_records_without_a_request_are_not_logged() -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a", validate_only=True)
    pending = Waiting()
    stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, pending)
    stage.commit()
    assert pending.done and not stage.reports.counts["metadata changed"]


class Account:
    """Who keeps the account of changes: ``write`` has it that they are written."""

    def __init__(self) -> None:
        self.recorded: list[list[Change]] = []
        self._then: list[Callable[[], None]] = []

    def record(self, changes: list[Change], then: Callable[[], None]) -> None:
        self.recorded.append(changes)
        self._then.append(then)

    def write(self) -> None:
        then, self._then = self._then, []
        for one in then:
            one()


def test_response_waits_until_the_audit_entry_is_written() -> None:
    account = Account()
    stage = Stage(account)
    stage.lead()
    first = stage._end
    pending, other = stage.ask("a", "b"), stage.ask("c")
    stage.commit()
    assert not pending.done and not other.done
    ((one, two),) = account.recorded
    assert (one.api, one.version, one.requester, one.node_id, one.leader_epoch) == (
        "CreateTopics",
        VERSION,
        ASKER,
        1,
        1,
    )
    assert (one.offset, two.last_offset) == (
        first,
        stage._end - 1,
    ) and one.last_offset + 1 == two.offset
    assert stage.reports.counts["metadata changed"] == 2
    account.write()
    assert (error_of(pending), error_of(other)) == (0, 0)


def test_deposed_leader_answers_changes_that_were_committed_before() -> None:
    account = Account()
    stage = Stage(account)
    stage.lead()
    pending = stage.ask("a")
    stage.commit()
    stage.acting.not_leading(1)
    assert not pending.done
    account.write()
    assert error_of(pending) == 0


def test_request_without_records_has_no_audit_entry() -> None:
    account = Account()
    stage = Stage(account)
    stage.lead()
    validated, registered = stage.ask("a", validate_only=True), Waiting()
    stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, registered)
    stage.commit()
    again = stage.ask("__cluster_metadata")
    stage.commit()
    assert validated.done and registered.done and again.done and account.recorded == []


@pytest.mark.parametrize(
    ("epoch", "written"),
    [(1, True), (2, False)],
    ids=["committed by the next leader", "replaced by it"],
)
def test_change_committed_by_a_later_leader_has_an_audit_entry(epoch: int, written: bool) -> None:
    """REQUEST_TIMED_OUT says that nobody knows; who knows later is the node that was asked."""
    account = Account()
    stage = Stage(account)
    stage.lead()
    pending, second = stage.ask("a"), stage.ask("b")
    first = stage._end
    stage.accept()
    stage.acting.not_leading(1)
    stage.epochs = dict.fromkeys(range(first, stage._end), epoch)
    stage.acting.committed(first + 1)
    assert (
        error_of(pending) == error_of(second) == ErrorCode.REQUEST_TIMED_OUT
        and account.recorded == []
    )
    stage.acting.committed(stage._end)
    stage.acting.committed(stage._end)
    told = [
        (one.leader_epoch, one.offset, one.time_ms > 0) for some in account.recorded for one in some
    ]
    assert told == ([(1, first, True), (1, first + 2, True)] if written else [])
    assert stage.reports.counts["metadata changed"] == len(told)


def test_change_that_was_never_appended_has_no_audit_entry() -> None:
    account = Account()
    stage = Stage(account)
    stage.lead()
    stage.ask("a")
    stage.acting.not_leading(1)
    stage.epochs = dict.fromkeys(range(100), 1)
    stage.acting.committed(100)
    assert account.recorded == []


def test_waiting_requests_are_forwarded_once_a_leader_is_known() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(0)) as leader, acting(stage):
            laters = [stage.ask(name) for name in "ab"]
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            await until(lambda: all(pending.done for pending in laters))
            assert leader.connections == 1

    run(main)


def test_request_answered_with_not_controller_is_forwarded_again() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(ErrorCode.NOT_CONTROLLER, 0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until(lambda: pending.done)
            assert error_of(pending) == 0

    run(main)


def test_unreachable_leader_is_tried_again_until_the_deadline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        stage = Stage()
        async with acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, 1)
            pending = stage.ask("a")
            await until(lambda: stage.reports.counts["request not forwarded"] >= 2)
            assert not pending.done, "nothing was done: it can be asked again"
            pending.complete(CreateTopicsResponse())  # its deadline passed
            await trio.sleep(0.25)
            asked = stage.reports.counts["request not forwarded"]
            await trio.sleep(0.25)
            assert stage.reports.counts["request not forwarded"] == asked

    run(main)
    assert "cannot connect" in capsys.readouterr().err


def test_request_whose_connection_was_closed_times_out_with_unknown_outcome() -> None:
    async def hangs_up(node: Node) -> None:
        await node.greet(OFFER)
        await node.next()

    async def main() -> None:
        stage = Stage()
        async with listening(hangs_up) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until(lambda: pending.done)
            assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT
            assert "not known" in message_of(pending)
            assert len([one for one in leader.seen if one.key == ENVELOPE]) == 1, (
                "never asked twice"
            )

    run(main)


def test_request_that_the_leader_does_not_support_is_unsupported_version() -> None:
    async def knows_nothing(node: Node) -> None:
        await node.greet(ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)]))
        await node.next()

    async def main() -> None:
        stage = Stage()
        async with listening(knows_nothing) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until(lambda: pending.done)
            assert error_of(pending) == ErrorCode.UNSUPPORTED_VERSION

    run(main)


def test_request_to_a_paused_leader_times_out_soon_after_another_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passing_on, "_GRACE_S", 0.05)

    async def main() -> None:
        stage = Stage()
        async with listening(silent) as paused, listening(answering(0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, paused.port)
            first, second = stage.ask("a"), stage.ask("b")
            await until(lambda: len(paused.seen) == 2)
            follow(stage, leader.port, leader_id=3)
            third = stage.ask("c")
            await until(lambda: first.done and second.done and third.done)
            assert sorted([error_of(first), error_of(second)]) == [
                0,
                ErrorCode.REQUEST_TIMED_OUT,
            ], "one left, the other did not"
            assert error_of(third) == 0

    run(main)


def test_request_after_the_end_waits_and_raises_nothing() -> None:
    async def main() -> None:
        stage = Stage()
        async with acting(stage):
            await trio.testing.wait_all_tasks_blocked()
        follow(stage, 1)
        assert not stage.ask("a").done

    run(main)


# --- whether it still leads
# -----------------------------------------------------------------------------------------------


def test_response_without_records_waits_for_a_confirmation_of_leadership() -> None:
    stage = Stage()
    stage.driver.raft.leads_until = 1.0
    stage.lead()
    pending = stage.ask("a", validate_only=True)
    assert not pending.done
    [confirming] = stage.driver.proposed
    assert [
        decode_metadata_record(value)[2].NAME for batch in confirming.batches for value in batch
    ] == ["NoOpRecord"]
    other = stage.ask("b", validate_only=True)
    assert len(stage.driver.proposed) == 1, (
        "one proof is enough for all that were asked before it was appended"
    )
    stage.accept()
    late = stage.ask("c", validate_only=True)
    assert len(stage.driver.proposed) == 1, "what was appended before it was asked proves nothing"
    stage.acting.committed(stage._end)
    assert (error_of(pending), error_of(other), late.done) == (0, 0, False)
    stage.commit()
    assert error_of(late) == 0


def test_leadership_is_confirmed_when_a_later_record_is_committed() -> None:
    stage, known = Stage(), []
    stage.acting.confirm(lambda: known.append("nobody leads here"))
    assert known.pop()
    stage.driver.raft.leads_until = 1.0
    stage.acting.leading(1, 0)
    stage.acting.confirm(lambda: known.append("asked before the controller was active"))
    stage.keeper.read_offset = 1
    stage.acting.image_advanced()
    stage.acting.confirm(lambda: known.append("asked when it was"))
    stage.accept()
    stage.acting.confirm(lambda: known.append("asked later"))
    assert known == []
    stage.acting.committed(stage._end)
    assert known == ["asked before the controller was active", "asked when it was"]
    stage.commit()
    assert known.pop() == "asked later"


@pytest.mark.parametrize("appended", [False, True])
def test_confirmation_ends_when_leadership_is_lost(appended: bool) -> None:
    stage, known = Stage(), []
    stage.driver.raft.leads_until = 1.0
    stage.lead()
    stage.acting.confirm(lambda: known.append(stage.acting.is_active))
    if appended:
        stage.accept()
    stage.acting.not_leading(1)
    assert known == [False]
    stage.acting.leading(2, 5)
    stage.acting.confirm(lambda: known.append(stage.acting.is_active))
    stage.acting.not_leading(2)
    assert known == [False, False]


def test_quorum_of_one_needs_no_confirmation() -> None:
    stage, known = Stage(), []
    stage.lead()
    stage.ask("a")
    stage.acting.confirm(lambda: known.append(True))
    assert known == [True]


# --- an idle log
# ------------------------------------------------------------------------------------------------------


def test_idle_leader_writes_one_no_op_record_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_controller, "_CHECK_S", 0.001)

    async def main() -> None:
        stage = Stage()
        stage.lead()
        settings = ControllerSettings(1, (1,), max_idle_interval_ms=1)
        stage.made[0].settings = settings
        async with acting(stage):
            await until(lambda: len(stage.driver.proposed) == 1)
            await trio.sleep(0.05)
            assert len(stage.driver.proposed) == 1, "the one before is not committed yet"
            stage.commit()
            await until(lambda: len(stage.driver.proposed) == 1)
            stage.acting.not_leading(1)
            stage.driver.proposed.clear()
            await trio.sleep(0.05)
            assert stage.driver.proposed == []

    run(main)
