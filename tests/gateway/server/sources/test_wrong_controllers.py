"""An observer that is given the address of something else than a controller says what is there, at
the start and with ``--check-config``; it is not ready while it has nothing to serve.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.app.node import check
from gateway.base.address import Address
from gateway.config.config import Config, ConfigError
from tests.gateway.server.guarded import place
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import FETCH, loopback_quorum
from tests.gateway.server.observed import LOCAL, gateway
from tests.gateway.server.own_nodes import lone_node
from tests.gateway.server.sources.test_observer_process import process
from tests.waiting import until_async
from tools.kafka_security import PLAIN_MODULE
from tools.process import lasting_ports


def observer(directory: Path, *addresses: Address, **more: Any) -> Config:
    return Config(
        listeners=(LOCAL,),
        controller_quorum_bootstrap_servers=addresses,
        data_dir=directory / "copy",
        metadata_log_fsync=False,
        **more,
    )


async def problems(settings: Config) -> list[str]:
    """The warnings of ``--check-config``; its errors, with an exclamation mark each."""
    try:
        return await trio.to_thread.run_sync(check, settings)
    except ConfigError as error:
        return [f"! {problem}" for problem in error.problems]


def test_listener_for_clients_in_place_of_a_controller_ends_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "own") as node:
            at, controller = node.ports["PLAINTEXT"], node.ports["CONTROLLER"]
            settings = observer(tmp_path, Address("127.0.0.1", at))
            with pytest.raises(ConfigError) as caught:
                async with gateway(settings):
                    pass
            said = (
                f"controller.quorum.bootstrap.servers: 127.0.0.1:{at}: it is a broker, or a"
                f" gateway's listener; controllers listen at 127.0.0.1:{controller}"
            )
            assert caught.value.problems == (said,)
            assert await problems(settings) == [f"! {said}"]

    run(main)


def test_listener_for_clients_beside_a_controller_is_a_warning(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "own") as node:
            ports = [node.ports["PLAINTEXT"], node.ports["CONTROLLER"]]
            settings = observer(tmp_path, *(Address("127.0.0.1", port) for port in ports))
            async with gateway(settings) as served:
                await until_async(lambda: served.source.high_watermark > 0, "the copy")
            (said,) = await problems(settings)
            assert "it is a broker" in said and not said.startswith("!")

    run(main)


def test_copy_whose_controllers_became_brokers_is_served_and_the_log_says_why(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "own") as node:
            at = Address("127.0.0.1", node.ports["CONTROLLER"])
            async with gateway(observer(tmp_path, at)) as served:
                await until_async(lambda: served.source.high_watermark > 0, "the copy")
            wrong = Address("127.0.0.1", node.ports["PLAINTEXT"])
            async with gateway(observer(tmp_path, wrong)) as served:
                assert served.source.high_watermark > 0
                await until_async(
                    lambda: "it is a broker" in str(served.observation.problem), "the cause"
                )

    run(main)


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        (lambda: Address("127.0.0.1", lasting_ports(1)[0]), "cannot connect: Connection refused"),
        (lambda: Address("no-such-host.invalid", 9093), "cannot connect: "),
    ],
    ids=["closed port", "unknown host"],
)
def test_check_config_connects_to_the_controllers(
    address: Callable[[], Address], cause: str, tmp_path: Path
) -> None:
    async def main() -> None:
        at = address()
        (said,) = await problems(observer(tmp_path, at))
        assert said.startswith("! controller.quorum.bootstrap.servers: ")
        assert str(at) in said and cause in said

    run(main)


def test_check_config_names_a_listener_that_speaks_tls(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as there:
            (said,) = await problems(observer(tmp_path, Address("127.0.0.1", there.port("TLS"))))
            assert "does this listener speak TLS (security.protocol)?" in said

    run(main)


def test_check_config_names_a_listener_for_controllers_that_wants_sasl(tmp_path: Path) -> None:
    module = f'{PLAIN_MODULE} required username="node" password="x" user_node="x";'
    security = {
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": module,
        "sasl.mechanism.controller.protocol": "PLAIN",
    }
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT"}

    async def main() -> None:
        more: Any = {"listener_security_protocol_map": protocols, "security": security}
        async with lone_node(tmp_path / "own", **more) as node:
            at = Address("127.0.0.1", node.ports["CONTROLLER"])
            (said,) = await problems(observer(tmp_path, at))
            assert "does this listener want SASL (security.protocol)?" in said

    run(main)


def test_ready_line_waits_for_something_to_serve(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            loopback_quorum(leader=None) as quorum,
            process(quorum, tmp_path / "data", "--log-format", "json") as served,
        ):
            # Pauses between them grow: these take longer than any start.
            await until_async(
                lambda: sum(voter.count(FETCH) for voter in quorum.voters.values()) > 20,
                "refused requests",
            )
            assert "request refused" in served.err and served.out == ""
            quorum.lead(3)
            quorum.write(1)
            ready = await served.ready()
            assert ready["state"] == "ready" and ready["high_watermark"] > 0

    run(main)
