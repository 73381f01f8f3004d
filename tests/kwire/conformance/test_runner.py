"""The runner: outcomes, limits of time and memory, cleaning up, known failures."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome
from kwire.conformance.probe import Probe
from kwire.conformance.rule import (
    BROKER,
    CONTROLLER,
    Changes,
    Family,
    Level,
    Need,
    Role,
    Rule,
)
from kwire.conformance.runner import Options, run_rules
from kwire.conformance.session import CannotConnect, Target
from kwire.frame import frame
from kwire.header import encode_response_header, peek
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ApiKey
from tests.kwire.conformance.scripted import (
    OFFERED,
    Script,
    api_versions,
    bare_server,
    server,
)


def rule(check: Callable[[Probe], None], **more: object) -> Rule:
    values: dict[str, object] = {"id": "test.rule", "says": "A rule.", "source": "test", **more}
    return Rule(check=check, **values)  # type: ignore[arg-type]


def ask(probe: Probe) -> None:
    probe.call(MetadataRequest(), 12)


def silent(connection: socket.socket, request: bytes) -> bool:
    return True


def closing(connection: socket.socket, request: bytes) -> bool:
    return False


def outcome_of(one: Rule, script: Script = silent, timeout_s: float = 5.0) -> tuple[Outcome, str]:
    with server(script) as target:
        report = run_rules(open_session(target, timeout_s), [one], Options())
    [result] = report.results
    return result.outcome, result.sentence


def test_request_without_a_connection_of_the_check_leaves_none_open() -> None:
    """A check that waits asks again and again, and a process may have a thousand open files."""
    opened: list[Any] = []

    with server(silent) as target:

        def opener(time_s: float) -> Any:
            opened.append(target.open(time_s))
            return opened[-1]

        session = open_session(target, 5.0)
        session.target = Target(target.name, opener, opener)
        probe = Probe(session, rule(ask))
        kept = probe.connect()
        for on in (None, None, kept):
            probe.call(ApiVersionsRequest(), 0, on)
        assert [one.fileno() < 0 for one in opened] == [False, True, True]
        assert len(probe.round_trips()) == 3
        probe.close()


def test_a_check_that_returns_passes() -> None:
    assert outcome_of(rule(lambda probe: None)) == (Outcome.PASS, "")


@pytest.mark.parametrize(
    ("check", "outcome", "sentence"),
    [
        (lambda probe: probe.fail("it is so"), Outcome.FAIL, "it is so"),
        (lambda probe: probe.expect(False, "not so"), Outcome.FAIL, "not so"),
        (lambda probe: probe.expect_error(3, 0), Outcome.FAIL,
         "the answer has error UNKNOWN_TOPIC_OR_PARTITION, not NONE"),
        (lambda probe: probe.not_applicable("no"), Outcome.NOT_APPLICABLE, "no"),
        (lambda probe: probe.need(ApiKey.FETCH, 4), Outcome.NOT_OFFERED,
         "Fetch is not offered in version 4"),
        (lambda probe: probe.deviates("odd", "SocketServer"), Outcome.DEVIATION,
         "odd (as Kafka's SocketServer)"),
        (lambda probe: 1 / 0, Outcome.ERROR,
         "the check itself failed: ZeroDivisionError('division by zero')"),
    ],
)  # fmt: skip
def test_a_check_ends_with_its_outcome(
    check: Callable[[Probe], None], outcome: Outcome, sentence: str
) -> None:
    assert outcome_of(rule(check)) == (outcome, sentence)


def test_a_failed_recommendation_is_advice() -> None:
    one = rule(lambda probe: probe.fail("it is so"), level=Level.SHOULD)
    assert outcome_of(one)[0] is Outcome.ADVICE


def test_a_server_that_closes_fails() -> None:
    outcome, sentence = outcome_of(rule(ask), closing)
    assert outcome is Outcome.FAIL
    assert sentence == "the connection was closed in place of an answer to Metadata v12"


def test_a_server_that_never_answers_ends_in_its_time() -> None:
    assert outcome_of(rule(ask), silent, 0.5)[0] is Outcome.TIMEOUT


def test_a_server_that_drips_ends_in_its_time() -> None:
    """It drips for 20 s: a timeout of each read alone would see the end of the connection."""

    def drip(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 1000))
        with contextlib.suppress(OSError):
            for _ in range(400):
                connection.sendall(b"\0")
                time.sleep(0.05)
        return False

    assert outcome_of(rule(ask), drip, 0.5)[0] is Outcome.TIMEOUT


def test_a_response_of_gigabytes_is_not_read() -> None:
    def flood(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 2_000_000_000))
        with contextlib.suppress(OSError):
            for _ in range(2000):
                connection.sendall(bytes(1_000_000))
        return False

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome, sentence = outcome_of(rule(ask), flood)
    assert outcome is Outcome.FAIL
    assert sentence == ("the server sent a frame of 2000000000 bytes, above the limit of 8388608")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_a_response_cut_off_fails() -> None:
    def cut(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 1000) + bytes(10))
        return False

    assert outcome_of(rule(ask), cut) == (
        Outcome.FAIL,
        "the server closed the connection in the middle of a frame",
    )


def test_rubbish_fails() -> None:
    def rubbish(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 20) + request[4:8] + b"\xff" * 16)
        return True

    outcome, sentence = outcome_of(rule(ask), rubbish)
    assert outcome is Outcome.FAIL
    assert sentence.startswith("the answer to Metadata v12 does not follow the schema: ")


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"roles": CONTROLLER}, Outcome.NOT_APPLICABLE),
        ({"roles": BROKER}, Outcome.PASS),
        ({"apis": (ApiKey.FETCH,)}, Outcome.NOT_OFFERED),
        ({"apis": (ApiKey.METADATA,), "version": 13}, Outcome.NOT_OFFERED),
        ({"needs": frozenset({Need.SASL})}, Outcome.NOT_APPLICABLE),
        ({"changes": Changes.CLUSTER}, Outcome.NOT_TRIED),
    ],
)
def test_a_rule_that_does_not_fit_is_not_run(more: dict[str, object], outcome: Outcome) -> None:
    assert outcome_of(rule(lambda probe: None, **more))[0] is outcome


def test_an_allowed_failure_passes_and_an_allowed_pass_fails() -> None:
    with server(silent) as target:
        session = open_session(target, 5)
        failing = rule(lambda probe: probe.fail("it is so"), id="test.failing")
        passing = rule(lambda probe: None, id="test.passing")
        options = Options(allowed={"test.failing": "issue 7", "test.passing": "issue 8"})
        report = run_rules(session, [failing, passing], options)
    assert [result.outcome for result in report.results] == [
        Outcome.ALLOWED,
        Outcome.NO_LONGER_FAILS,
    ]
    assert report.results[0].sentence == "it is so (allowed: issue 7)"
    assert report.exit_status() == 1


def test_everything_made_is_removed_newest_first_also_after_an_interruption() -> None:
    removed: list[str] = []

    def make(probe: Probe) -> None:
        probe.session.on_end("topic a", lambda: removed.append("a"))
        probe.session.on_end("topic b", lambda: removed.append("b"))

    def interrupt(result: object) -> None:
        raise KeyboardInterrupt

    with server(silent) as target:
        report = run_rules(open_session(target, 5), [rule(make)], Options(), interrupt)
    assert removed == ["b", "a"]
    assert report.interrupted


def test_what_cannot_be_removed_is_reported() -> None:
    def make(probe: Probe) -> None:
        probe.session.on_end("topic a", lambda: probe.fail("gone"))

    with server(silent) as target:
        report = run_rules(open_session(target, 5), [rule(make)], Options())
    assert report.remarks == ["topic a could not be removed: gone"]


def test_a_shared_value_is_made_once() -> None:
    made: list[int] = []

    def use(probe: Probe) -> None:
        probe.session.shared("topic", lambda: made.append(1), probe.deadline)

    with server(silent) as target:
        rules = [rule(use, id=f"test.{number}") for number in range(20)]
        report = run_rules(open_session(target, 5), rules, Options())
    assert made == [1]
    assert report.exit_status() == 0


def test_rules_that_share_a_value_that_does_not_come_end_in_their_time() -> None:
    tried: list[int] = []

    def use(probe: Probe) -> None:
        probe.session.shared("topic", lambda: made_by(probe), probe.deadline)

    def made_by(probe: Probe) -> None:
        tried.append(1)
        with probe.other_probe() as other:
            ask(other)

    with server(silent) as target:
        rules = [rule(use, id=f"test.{number}") for number in range(8)]
        report = run_rules(open_session(target, 0.5), rules, Options())
    assert {result.outcome for result in report.results} == {Outcome.TIMEOUT}
    assert len(tried) < 8, "they waited one after the other"


def test_removing_what_was_made_ends_in_its_time() -> None:
    asked: list[bytes] = []

    def seen(connection: socket.socket, request: bytes) -> bool:
        asked.append(request)
        return True

    def make(probe: Probe) -> None:
        for number in range(10):
            probe.session.on_end(f"topic {number}", lambda: remove(probe))

    def remove(probe: Probe) -> None:
        with probe.other_probe() as other:
            ask(other)

    with server(seen) as target:
        report = run_rules(open_session(target, 0.5), [rule(make)], Options())
    assert len(report.remarks) == 10
    assert len(asked) < 10, "each was waited for"


def test_the_frames_of_a_run_are_bounded() -> None:
    def large(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 100_000) + request[4:8] + b"\xff" * 99_996)
        return True

    with server(large) as target:
        rules = [rule(ask, id=f"test.{number}") for number in range(40)]
        report = run_rules(open_session(target, 5), rules, Options())
    frames = [len(one.received or b"") for result in report.results for one in result.round_trips]
    assert len(frames) == 40
    assert max(frames) == 64 * 1024
    assert sum(frames) < 1_200_000


def test_large_responses_are_received_one_at_a_time() -> None:
    is_free: list[bool] = []

    def large(connection: socket.socket, request: bytes) -> bool:
        connection.sendall(struct.pack(">i", 1_000_000) + request[4:8] + bytes(999_996))
        return True

    def receive(probe: Probe) -> None:
        connection = probe.connect()
        _, data = probe.encode(MetadataRequest(), 12)
        connection.send_request(data)
        assert len(connection.receive()) == 1_000_000
        is_free.append(probe.session.large.acquire(blocking=False))
        connection.close()
        is_free.append(probe.session.large.acquire(blocking=False))

    assert outcome_of(rule(receive), large) == (Outcome.PASS, "")
    assert is_free == [False, True]


def test_the_roles_of_a_server_follow_from_its_apis() -> None:
    with server(silent) as target:
        assert open_session(target, 5).roles == {Role.BROKER}


def test_no_listener_cannot_be_tried() -> None:
    with server(silent) as target:
        pass
    with pytest.raises(CannotConnect, match="refused"):
        open_session(target, 5)


def test_a_server_that_is_not_kafka_cannot_be_tried() -> None:
    def refused(timeout_s: float) -> socket.socket:
        one, other = socket.socketpair()
        other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        other.close()
        return one

    with pytest.raises(CannotConnect):
        open_session(Target("web:80", refused, refused), 2)


def test_a_server_whose_answer_to_a_new_version_cannot_be_read_is_asked_in_version_0() -> None:
    def answer(connection: socket.socket, request: bytes) -> bool:
        _, version, number = peek(request)
        if version == 0:
            api_versions(connection, request)
        else:  # UNSUPPORTED_VERSION, in a form that is neither that of version 0 nor of version 3
            connection.sendall(frame(encode_response_header(18, 0, number), b"\0\x23\x01\0\x12"))
        return True

    with bare_server(answer) as target:
        assert open_session(target, 5).offered == dict(OFFERED)


def test_two_rules_of_one_id_are_refused() -> None:
    family = Family("test", "Tests")
    family.add(rule(lambda probe: None))
    with pytest.raises(ValueError, match=r"two rules have the id test\.rule"):
        family.add(rule(lambda probe: None))
