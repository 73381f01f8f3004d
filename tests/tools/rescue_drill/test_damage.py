"""The damage that the drill does is what ``kwire rescue inspect`` finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from gateway.rescue.read_copy import read_copy
from tools.kafka import Node
from tools.rescue_drill.damage import Place, cut_off, flip, place_of

SAMPLE: Final = Path(__file__).resolve().parents[3] / "gateway" / "sample"
TOPIC: Final = "orders"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(1, ("controller",), tmp_path)
    # A cluster of one epoch, without a snapshot, has no file that knows of records behind the cut.
    later = shutil.ignore_patterns("*.checkpoint", "leader-epoch-checkpoint")
    shutil.copytree(SAMPLE, node.log_dir, ignore=later)
    return node


@pytest.fixture
def place(node: Node) -> Place:
    found = place_of(node, TOPIC)
    assert found is not None
    return found


def test_a_topic_that_was_never_made_has_no_place(node: Node) -> None:
    assert place_of(node, "never-made") is None


def test_a_flipped_bit_damages_the_log_at_the_record(node: Node, place: Place) -> None:
    assert read_copy(node.log_dir).is_whole
    flip(node, place)
    copy = read_copy(node.log_dir)
    assert not copy.is_whole and copy.end.end_offset <= place.offset


def test_a_log_that_is_cut_off_is_whole_and_ends_before_the_record(
    node: Node, place: Place
) -> None:
    cut_off(node, place)
    copy = read_copy(node.log_dir)
    assert copy.is_whole and copy.end.end_offset <= place.offset
    assert "ends inside a batch" in copy.notes[0]
