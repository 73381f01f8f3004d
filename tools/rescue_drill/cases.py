"""The cases of docs/rescue.md: what is lost, which copies are left, and how the cluster comes back.

Each function takes a cluster that runs, and returns when the rescued one is proven. Raises
ProcessError, JavaError, AdminError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tools.consistency_checker.watch import leader_end
from tools.gateway_process import gateway
from tools.kafka import Node
from tools.kafka_files import write_properties
from tools.process import lasting_ports
from tools.rescue_drill.cluster import Drill, voter
from tools.rescue_drill.lag import observing, served
from tools.rescue_drill.traffic import wait


class Case(NamedTuple):
    """A case by its title in the table. ``static``: of a quorum that is named in the files."""

    title: str
    run: Callable[[Drill], None]
    static: bool = False


def survivor(drill: Drill) -> None:
    """Two of three controllers lose their disks, the third is written anew in place."""
    one, *lost = drill.controllers
    drill.strike(drill.controllers, lost)
    drill.rescue(_copies(one, *drill.brokers), [one])
    drill.start([one])
    drill.prove()
    drill.bring_back(lost)


def broker(drill: Drill) -> None:
    """All controllers lose their disks; the brokers' copies are left."""
    _, *lost = drill.controllers
    _from_brokers(drill)
    drill.bring_back(lost)


def snapshot(drill: Drill) -> None:
    """As :func:`broker`, by a snapshot without the registrations of lost controllers."""
    _from_brokers(drill, "--snapshot", "--drop-controllers")


def observer(drill: Drill) -> None:
    """All controllers lose their disks, and only the copy of a gateway is given."""
    one, *lost = drill.controllers
    with TemporaryDirectory(prefix="kwire-drill-") as scratch:
        data_dir = Path(scratch) / "gateway"
        with gateway(*observing(drill.cluster, data_dir)) as server:
            wait(
                lambda: served(server) >= leader_end(drill.cluster.wait_for_leader()),
                "the gateway has a whole copy",
            )
            drill.strike(drill.controllers, drill.controllers)
            drill.rescue([data_dir], [one])
            drill.start([one])
            wait(lambda: served(server) > drill.written["endOffset"], "the gateway goes on")
        drill.prove()
        drill.bring_back(lost)


def moved(drill: Drill) -> None:
    """No disk is lost, but the address of every controller changes."""
    drill.strike(drill.cluster.nodes, [])
    for node, port in zip(drill.controllers, lasting_ports(len(drill.controllers)), strict=True):
        node.controller_port = port
    for node in drill.cluster.nodes:
        write_properties(drill.cluster.shape, node, drill.cluster.nodes)
    drill.rescue(_copies(*drill.cluster.nodes), drill.controllers)
    for node in drill.brokers:
        drill.cluster.start_node(node)
    drill.start(drill.controllers)
    drill.prove()


def static(drill: Drill) -> None:
    """Two of three controllers of a static quorum lose their disks; the file of the third names it
    alone from now on, the brokers' files stay.
    """
    one, *lost = drill.controllers
    drill.strike(drill.controllers, lost)
    drill.rescue(_copies(one, *drill.brokers), [one])
    drill.cluster.configure_node(one, {"controller.quorum.voters": voter(one)})
    drill.start([one])
    drill.prove()


CASES: Final[Mapping[str, Case]] = {
    "survivor": Case("one of three controllers is left", survivor),
    "broker": Case("all controllers are lost, from a broker", broker),
    "snapshot": Case("the same, by a snapshot", snapshot),
    "gateway": Case("all controllers are lost, from a gateway", observer),
    "moved": Case("all addresses have moved", moved),
    "static": Case("static quorum, one of three is left", static, static=True),
}


def _from_brokers(drill: Drill, *how: str) -> None:
    one, *_ = drill.controllers
    drill.strike(drill.controllers, drill.controllers)
    drill.rescue(_copies(*drill.brokers), [one], *how)
    drill.start([one])
    drill.prove()


def _copies(*nodes: Node) -> list[Path]:
    return [one.log_dir for one in nodes]
