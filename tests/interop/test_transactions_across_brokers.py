"""Transactions of two brokers, of kwire or one of Kafka: coordinators, partitions and groups are
spread over both. Each asks the other whether a transaction has a partition, and to write markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.interop.clients import need_clients
from tests.interop.quorum import need_kafka
from tests.waiting import PATIENCE_S, until
from tools.broker_kills.copier import Copier
from tools.broker_kills.reading import PARTITIONS
from tools.broker_kills.writers import Transactional
from tools.kafka import Cluster, kafka
from tools.own_brokers import OwnBrokers, own_brokers
from tools.own_quorum import own_quorum

_TOPICS = ("transactional", "copies", "__transaction_state", "__consumer_offsets")
_PROPERTIES = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
}


@pytest.fixture(scope="module", params=["kwire", "kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[Sequence[Cluster]]:
    """Two brokers of kwire under its controller; or one beside a broker of Kafka, under Kafka's."""
    need_clients()
    with ExitStack() as stack:
        if request.param == "kwire":
            controllers = {"process.roles": "controller"}
            quorum = stack.enter_context(own_quorum(1, formatted=True, properties=controllers))
            yield [stack.enter_context(own_brokers(quorum, 2, properties=_PROPERTIES))]
        else:
            need_kafka()
            java = stack.enter_context(kafka(brokers=1, controllers=1, properties=_PROPERTIES))
            yield [java, stack.enter_context(own_brokers(java, 1, properties=_PROPERTIES))]


def test_transactions_and_offsets_are_whole_when_two_brokers_share_them(
    brokers: Sequence[Cluster],
) -> None:
    bootstrap = ",".join(one.bootstrap for one in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, PARTITIONS, 1) for name in _TOPICS[:2]]
    for created in admin.create_topics(new).values():
        created.result(PATIENCE_S)
    writer = Transactional(bootstrap, "transactional")
    copier = Copier(bootstrap, "copies", "transactional")
    for thread in (writer, copier):
        thread.start()
    until(lambda: copier.counts()["copied"] >= 200, "records are copied in transactions")
    writer.end()
    copier.end()
    assert not [fault for one in (writer, copier) for fault in one.violations()]
    found = admin.list_topics(timeout=PATIENCE_S).topics
    ids = {node.node_id for one in brokers for node in one.nodes if node.is_broker()}
    for name in _TOPICS:
        assert {one.leader for one in found[name].partitions.values()} == ids, name
    own = brokers[-1]
    assert isinstance(own, OwnBrokers)
    assert "transaction marker refused" not in own.output_end()
