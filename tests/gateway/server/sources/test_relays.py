"""A server that observes a model quorum, and a second one that observes the first, over sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.base.address import Address
from gateway.config.checks import check
from gateway.config.config import Config, ConfigError, Listener
from gateway.handlers.table import relay_handlers
from gateway.ports.services import State
from gateway.server.management.running_server import RunningServer
from gateway.server.quorum import observer_watch
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.protocol import ApiKey, ErrorCode
from tests.gateway.quorum.observer.model import CLUSTER_ID
from tests.gateway.quorum.serving_world import fetch
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.loopback_quorum import LoopbackQuorum, loopback_quorum
from tests.gateway.server.observed import LOCAL, Gateway, committed, config, gateway
from tests.waiting import until_async
from tools.kafka_security import PLAIN_MODULE

FOR_NODES = Listener("CONTROLLER", "127.0.0.1", 0)
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NODE = 'required username="node" password="secret"'


def relay(data_dir: Path, quorum: LoopbackQuorum, **more: Any) -> Config:
    return config(data_dir, quorum, listeners=(LOCAL, FOR_NODES), **more)


def below(data_dir: Path, quorum: LoopbackQuorum, above: RunningServer, **more: Any) -> Config:
    return config(data_dir, quorum, bootstrap=(Address("127.0.0.1", port_of(above)),), **more)


def port_of(ready: RunningServer) -> int:
    return next(one.port for one in ready.bound_listeners if one.name == "CONTROLLER")


async def has_all(quorum: LoopbackQuorum, *levels: Gateway) -> None:
    for level in levels:
        await level.shows(quorum.committed_end)
        assert level.served() == committed(quorum)


def test_second_level_has_the_committed_bytes_and_follows_elections(tmp_path: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with (
                gateway(relay(tmp_path / "1", quorum)) as first,
                gateway(below(tmp_path / "2", quorum, first.ready)) as second,
            ):
                await has_all(quorum, first, second)
                quorum.write(2, commit=False)
                quorum.replicate_all()
                quorum.lead(2)
                quorum.write(2)
                await has_all(quorum, first, second)
                assert second.source.cluster_id == CLUSTER_ID
                assert (first.observation.relays, second.observation.relays) == (0, 1)
                assert second.observation.leader_id == 2
                assert second.source.state is State.READY
                asked = [voter.count(ApiKey.FETCH) for voter in quorum.voters.values()]
                assert sum(asked) > 0 and second.observation.fetches > 0

    run(main)


def test_second_level_is_stale_when_the_first_one_loses_the_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_watch, "LOST_AFTER_S", 1.0)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with (
                gateway(relay(tmp_path / "1", quorum)) as first,
                gateway(below(tmp_path / "2", quorum, first.ready)) as second,
            ):
                await has_all(quorum, first, second)
                await quorum.down(*quorum.voters)
                await until_async(lambda: second.source.state is State.STALE)
                assert "gets no answer of the leader" in str(second.observation.problem)
                # A new one copies the log, and shows nothing before it has heard of the leader.
                async with gateway(below(tmp_path / "3", quorum, first.ready)) as late:
                    await until_async(lambda: late.source.committed == quorum.committed_end)
                    assert late.source.state is State.LOADING
                    await quorum.up(*quorum.voters)
                    quorum.lead(1)
                    await until_async(lambda: late.readiness().ready)

    run(main)


async def offered(ready: RunningServer) -> set[int]:
    async with await connect(port_of(ready)) as client:
        await client.send(request(18, 0, ApiVersionsRequest().encode(0)))
        _, answer = await client.answer(18, 0)
        return {one.api_key for one in answer.api_keys}


def test_controller_listener_offers_what_observers_send(tmp_path: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum, gateway(relay(tmp_path / "1", quorum)) as first:
            found = await offered(first.ready)
            assert found == set(relay_handlers())
            assert {ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_QUORUM} < found
            voters = {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.ADD_RAFT_VOTER}
            assert not found & voters and ApiKey.CREATE_TOPICS not in found

    run(main)


async def fetched(ready: RunningServer, message: FetchRequest) -> Any:
    async with await connect(port_of(ready)) as client:
        await client.send(request(ApiKey.FETCH, 18, message.encode(18)))
        _, answer = await client.answer(ApiKey.FETCH, 18)
        return answer


def test_fetch_needs_cluster_action(tmp_path: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            settings = relay(tmp_path / "1", quorum, authorizer_class_name=_AUTHORIZER)
            async with gateway(settings) as first:
                answer = await fetched(first.ready, fetch(cluster_id=CLUSTER_ID))
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            settings = relay(
                tmp_path / "2",
                quorum,
                authorizer_class_name=_AUTHORIZER,
                super_users="User:ANONYMOUS",
            )
            async with gateway(settings) as first:
                answer = await fetched(first.ready, fetch(cluster_id=CLUSTER_ID))
                assert answer.error_code == ErrorCode.NONE

    run(main)


def test_observers_authenticate_at_a_relay(tmp_path: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            users = f'{PLAIN_MODULE} required user_node="secret";'
            settings = relay(
                tmp_path / "1",
                quorum,
                listener_security_protocol_map={
                    "PLAINTEXT": "PLAINTEXT",
                    "CONTROLLER": "SASL_PLAINTEXT",
                },
                security={
                    "sasl.enabled.mechanisms": "PLAIN",
                    "listener.name.controller.plain.sasl.jaas.config": users,
                },
                authorizer_class_name=_AUTHORIZER,
                super_users="User:node",
            )
            client = tmp_path / "client.properties"
            client.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"sasl.jaas.config={PLAIN_MODULE} {_NODE};\n"
            )
            async with gateway(settings) as first:
                known = below(tmp_path / "2", quorum, first.ready, command_config=client)
                async with gateway(known) as second:
                    await has_all(quorum, second)
                async with gateway(below(tmp_path / "3", quorum, first.ready)) as unknown:
                    await trio.sleep(0.3)
                    assert unknown.source.state is State.LOADING

    run(main)


def test_observer_without_a_listener_for_clients_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is none for clients"):
        check(
            Config(
                source="observer",
                listeners=(FOR_NODES,),
                controller_quorum_bootstrap_servers=(Address("a", 1),),
                data_dir=tmp_path,
            )
        )
