"""Rules of BrokerHeartbeat: fencing, unfencing, controlled shutdown and the session (KIP-631)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import brokers
from kwire.conformance.brokers import ALL_READ, NOTHING_READ, Broker
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import Quorum, require_leader
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.messages.fence_broker_record import FenceBrokerRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.unfence_broker_record import UnfenceBrokerRecord
from kwire.protocol import ApiKey, ErrorCode

_APIS: Final = (ApiKey.BROKER_HEARTBEAT, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
_LIVES: Final = (*_APIS, ApiKey.BROKER_REGISTRATION, ApiKey.UNREGISTER_BROKER)
FAMILY: Final = Family(
    "broker-heartbeat",
    "Heartbeats of brokers",
    roles=CONTROLLER,
    since="3.0",
    alone=True,
    apis=_LIVES,
    changes=Changes.CLUSTER,
)
_TOPICS: Final = (*_LIVES, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS)
_FENCING: Final = "Fencing"
#: BrokerRegistrationChangeRecord: the broker is unfenced, or fenced.
_UNFENCED, _FENCED = -1, 1
#: A probe shorter than this cannot wait for the end of a session of 9 s, Kafka's default.
_SESSION_S: Final = 15.0


def _answered(probe: Probe, answer: Any, **values: bool) -> None:
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    for name, value in values.items():
        probe.expect(
            getattr(answer, name) == value,
            f"{name} is {getattr(answer, name)} in the answer, not {value}",
        )


@FAMILY.rule(
    "unknown-broker",
    source="ClusterControlManager",
    section="checkBrokerEpoch",
    alone=False,
    apis=_APIS,
    changes=Changes.NOTHING,
)
def unknown_broker(probe: Probe) -> None:
    """The heartbeat of a broker that is not registered is refused with STALE_BROKER_EPOCH."""
    require_leader(probe)
    answer = brokers.heartbeat(probe, Broker(epoch=1))
    probe.expect_error(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)


@FAMILY.rule("other-epoch", source="KIP-631", section="Broker Registration and Heartbeats")
def other_epoch(probe: Probe) -> None:
    """A heartbeat with another broker epoch than that of the registration, lower or higher, is
    refused with STALE_BROKER_EPOCH.
    """
    broker = brokers.registered(probe, require_leader(probe))
    for more in (-1, 1):
        answer = brokers.heartbeat(probe, broker, broker_epoch=broker.epoch + more)
        probe.expect_error(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)


@FAMILY.rule("after-unregister", source="KIP-631", section="Registration State")
def after_unregister(probe: Probe) -> None:
    """A broker that was unregistered has no registration to keep: its heartbeat is refused with
    STALE_BROKER_EPOCH.
    """
    broker = brokers.registered(probe, require_leader(probe))
    probe.expect_error(brokers.unregister(probe, broker.id), ErrorCode.NONE)
    answer = brokers.heartbeat(probe, broker)
    probe.expect_error(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)


@FAMILY.rule("starts-fenced", source="KIP-631", section=_FENCING)
def starts_fenced(probe: Probe) -> None:
    """A broker that has registered and wants to be fenced is fenced."""
    broker = brokers.registered(probe, require_leader(probe))
    answer = brokers.heartbeat(probe, broker, ALL_READ, want_fence=True)
    _answered(probe, answer, is_fenced=True, is_caught_up=True)


@FAMILY.rule("behind-stays-fenced", source="KIP-631", section="Broker Startup")
def behind_stays_fenced(probe: Probe) -> None:
    """A broker that has not read its own registration is not caught up, and stays fenced."""
    broker = brokers.registered(probe, require_leader(probe))
    answer = brokers.heartbeat(probe, broker, NOTHING_READ)
    _answered(probe, answer, is_fenced=True, is_caught_up=False)


@FAMILY.rule("unfenced", source="KIP-631", section=_FENCING)
def unfenced(probe: Probe) -> None:
    """A broker that has caught up and wants to serve is told that it is not fenced, and the log
    has it.
    """
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    end = brokers.log_end(probe, quorum)
    answer = brokers.heartbeat(probe, broker)
    _answered(probe, answer, is_fenced=False, is_caught_up=True, should_shut_down=False)
    probe.expect(
        _moves(probe, quorum, broker, end) == [_UNFENCED], "the log does not unfence the broker"
    )


@FAMILY.rule("fenced-on-demand", source="KIP-631", section=_FENCING)
def fenced_on_demand(probe: Probe) -> None:
    """A broker that serves and wants to be fenced is fenced, and the log has it."""
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    end = brokers.log_end(probe, quorum)
    answer = brokers.heartbeat(probe, broker, want_fence=True)
    _answered(probe, answer, is_fenced=True, should_shut_down=False)
    probe.expect(
        _moves(probe, quorum, broker, end) == [_FENCED], "the log does not fence the broker"
    )


@FAMILY.rule(
    "no-record-without-change", source="BrokerHeartbeatManager", section="touch", since="3.3"
)
def no_record_without_change(probe: Probe) -> None:
    """A heartbeat of a broker whose state stays writes no record about it."""
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    end = brokers.log_end(probe, quorum)
    _answered(probe, brokers.heartbeat(probe, broker), is_fenced=False)
    moves = _moves(probe, quorum, broker, end)
    probe.expect(not moves, f"the log has {len(moves)} changes of the broker")


@FAMILY.rule("fenced-shuts-down", source="KIP-631", section="Controlled Shutdown")
def fenced_shuts_down(probe: Probe) -> None:
    """A fenced broker that wants to shut down may do so at once: it leads nothing."""
    broker = brokers.registered(probe, require_leader(probe))
    answer = brokers.heartbeat(probe, broker, want_shut_down=True)
    _answered(probe, answer, should_shut_down=True)


@FAMILY.rule("shuts-down-without-leaders", source="KIP-631", section="Controlled Shutdown")
def shuts_down_without_leaders(probe: Probe) -> None:
    """A broker that serves, leads no partition and wants to shut down is told to do so, and is
    fenced.
    """
    broker = brokers.serving(probe, require_leader(probe))
    answer = brokers.heartbeat(probe, broker, want_shut_down=True)
    _answered(probe, answer, should_shut_down=True, is_fenced=True)


@FAMILY.rule(
    "leaders-move-first", source="KIP-631", section="Controlled Shutdown", since="3.3", apis=_TOPICS
)
def leaders_move_first(probe: Probe) -> None:
    """A broker that leads a partition and wants to shut down waits until another replica leads it,
    and may then shut down.
    """
    quorum = require_leader(probe)
    leaver, other = brokers.serving(probe, quorum), brokers.serving(probe, quorum)
    topic = brokers.create_topic(probe, [leaver.id, other.id])
    end = brokers.log_end(probe, quorum)
    answer = brokers.heartbeat(probe, leaver, want_shut_down=True)
    _answered(probe, answer, should_shut_down=False, is_fenced=False)
    leaders = [
        one.leader
        for _, one in brokers.records_from(probe, quorum, end)
        if isinstance(one, PartitionChangeRecord) and one.topic_id == topic.topic_id
    ]
    probe.expect(leaders == [other.id], f"the partition's new leaders are {leaders}")

    def may_go() -> bool:
        brokers.heartbeat(probe, other)  # as all other brokers, it has to have read the change
        return bool(brokers.heartbeat(probe, leaver, want_shut_down=True).should_shut_down)

    probe.until(may_go, "the broker's leave to shut down")


@FAMILY.rule("session-ends", source="KIP-631", section=_FENCING)
def session_ends(probe: Probe) -> None:
    """A broker that sends no heartbeat for the time of its session is fenced."""
    if probe.session.timeout_s < _SESSION_S:
        probe.not_applicable(f"a probe shorter than {_SESSION_S:g} s cannot wait for it")
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    end = brokers.log_end(probe, quorum)
    moves = probe.until(
        lambda: _moves(probe, quorum, broker, end) or None, "a record that fences the broker"
    )
    probe.expect(moves == [_FENCED], f"the log changes the broker's fencing by {moves}")


def _moves(probe: Probe, quorum: Quorum, broker: Broker, offset: int) -> list[int]:
    """The changes of the broker's fencing in the log, from ``offset`` on."""
    found = []
    for _, one in brokers.records_from(probe, quorum, offset):
        if isinstance(one, BrokerRegistrationChangeRecord) and one.broker_id == broker.id:
            found += [one.fenced] if one.fenced else []
        elif isinstance(one, FenceBrokerRecord | UnfenceBrokerRecord) and one.id == broker.id:
            found.append(_FENCED if isinstance(one, FenceBrokerRecord) else _UNFENCED)
    return found
