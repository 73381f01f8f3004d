"""The cases of docs/rescue.md: what is lost, which copies are left, and how the cluster comes back.

Each function takes a cluster that runs, and returns when the rescued one is proven. Raises
ProcessError, JavaError, AdminError.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from kwire.metadata_log.file_names import parse_snapshot_name
from tools.consistency_checker.watch import leader_end
from tools.gateway_process import gateway
from tools.java import JavaError
from tools.kafka import Node
from tools.kafka_files import write_properties
from tools.process import ProcessError, lasting_ports
from tools.rescue_drill import damage
from tools.rescue_drill.cluster import GHOST, Drill, drill, voter
from tools.rescue_drill.lag import observing, served
from tools.rescue_drill.traffic import wait

#: A topic of which the rescued log has no record.
_DROPPED: Final = "dropped"
#: The first release that makes a static quorum a dynamic one.
_DYNAMIC_SINCE: Final = (4, 1)


class Case(NamedTuple):
    """A case by its title in the table. ``static``: of a quorum that is named in the files.
    ``ghost``: with a controller of an older release that observes. ``snapshots``: whose nodes write
    a snapshot every few seconds.
    """

    title: str
    run: Callable[[Drill], None]
    static: bool = False
    ghost: bool = False
    snapshots: bool = False

    def cluster(self, release: str) -> AbstractContextManager[Drill]:
        """A running cluster to run the case on. Raises JavaError, ProcessError."""
        return drill(release, static_voters=self.static, ghost=self.ghost, snapshots=self.snapshots)


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
    _from_brokers(drill)


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
    drill.lose_one()


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
    if _numbers(drill.cluster.version) >= _DYNAMIC_SINCE:
        drill.become_dynamic()
        drill.bring_back(lost)


def whole_static(drill: Drill) -> None:
    """As :func:`static`, with a new disk for each controller that lost its own: all three are
    written, and no file changes.
    """
    one, *lost = drill.controllers
    drill.strike(drill.controllers, lost)
    drill.rescue(_copies(one, *drill.brokers), drill.controllers)
    drill.start(drill.controllers)
    drill.prove()
    drill.lose_one()


def torn(drill: Drill) -> None:
    """Two of three controllers lose their disks, the log of the third ends inside a batch, and no
    other copy is given: a topic that the brokers know is lost.
    """
    one, *lost = drill.controllers
    place = drill.make_topic(_DROPPED)
    drill.strike(drill.controllers, lost)
    damage.cut_off(one, place)
    drill.rescue(_copies(one), [one])
    drill.start([one], brokers_end=True)
    drill.prove()
    drill.is_stray(_DROPPED)
    drill.bring_back(lost)


def damaged(drill: Drill) -> None:
    """As :func:`torn`, with a flipped bit in that batch: all behind it is lost, too."""
    one, *lost = drill.controllers
    place = drill.make_topic(_DROPPED)
    drill.strike(drill.controllers, lost)
    damage.flip(one, place)
    drill.refused(_copies(one), [one], "is damaged")
    drill.rescue(_copies(one), [one], "--snapshot")
    drill.start([one], brokers_end=True)
    drill.prove()
    drill.is_stray(_DROPPED)
    drill.bring_back(lost)


def file(drill: Drill) -> None:
    """All controllers lose their disks, and only a snapshot file of a broker is given: a topic that
    was made behind it is lost.
    """
    one, *lost = drill.controllers
    end = leader_end(drill.cluster.wait_for_leader())
    with TemporaryDirectory(prefix="kwire-drill-") as scratch:
        written = wait(lambda: _snapshot(drill.brokers[0], end), "a broker writes a snapshot")
        copy = Path(shutil.copy(written, scratch))
        drill.make_topic(_DROPPED)
        drill.strike(drill.controllers, drill.controllers)
        drill.format_anew(one)
        drill.rescue([copy], [one], "--snapshot")
    drill.start([one], brokers_end=True)
    drill.prove()
    drill.is_stray(_DROPPED)
    drill.bring_back(lost)


def cut(drill: Drill) -> None:
    """No disk is lost, but a topic and all records behind it have to go."""
    place = drill.make_topic(_DROPPED)
    drill.strike(drill.controllers, [])
    copies = _copies(*drill.cluster.nodes)
    how = ["--snapshot", "--cut-at", str(place.offset)]
    drill.refused(copies, drill.controllers, "that is a loss", *how)
    drill.rescue(copies, drill.controllers, *how)
    drill.start(drill.controllers, brokers_end=True)
    drill.prove()
    drill.is_stray(_DROPPED)
    drill.lose_one()


def ghost(drill: Drill) -> None:
    """A controller of an older release is gone, and its registration blocks the upgrade of the
    cluster; all controllers are written without it.
    """
    try:
        drill.upgrade()
    except JavaError as error:
        if f"Controller {GHOST} does not support" not in str(error):
            raise
    else:
        raise ProcessError(f"controller {GHOST} blocks no upgrade")
    drill.strike(drill.controllers, [])
    drill.rescue(_copies(*drill.controllers), drill.controllers, "--snapshot", "--drop-controllers")
    drill.start(drill.controllers)
    drill.prove()
    drill.upgrade()
    drill.lose_one()


CASES: Final[Mapping[str, Case]] = {
    "survivor": Case("one of three controllers is left", survivor),
    "broker": Case("all controllers are lost, from a broker", broker),
    "snapshot": Case("the same, by a snapshot", snapshot),
    "gateway": Case("all controllers are lost, from a gateway", observer),
    "moved": Case("all addresses have moved", moved),
    "static": Case("static quorum, one of three is left", static, static=True),
    "whole-static": Case("the same, three are written", whole_static, static=True),
    "torn": Case("one is left, its log is cut off", torn),
    "damaged": Case("one is left, its log is damaged", damaged),
    "file": Case("only a snapshot file is left", file, snapshots=True),
    "cut": Case("records have to go", cut),
    "ghost": Case("a controller that is gone blocks upgrades", ghost, ghost=True),
}


def _from_brokers(drill: Drill, *how: str) -> None:
    one, *lost = drill.controllers
    drill.strike(drill.controllers, drill.controllers)
    drill.rescue(_copies(*drill.brokers), [one], *how)
    drill.start([one])
    drill.prove()
    drill.bring_back(lost)


def _copies(*nodes: Node) -> list[Path]:
    return [one.log_dir for one in nodes]


def _snapshot(node: Node, end: int) -> Path | None:
    """A snapshot of the state at offset ``end`` or later; None if there is none yet."""
    for path in node.metadata_log_dir.glob("*.checkpoint"):
        found = parse_snapshot_name(path.name)
        if found is not None and found.end_offset >= end:
            return path
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
