"""The levels of the state's tree are those of ``kwire state``; differences those of ``kwire
diff``.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.page import state_browser
from gateway.page.state_browser import NoSuchPath, browse, differences
from kwire.cluster import Image
from kwire.cluster.difference import difference
from kwire.cluster.shell_view import shell_view
from tests.gateway.page.sample_log import changes, state

OFFSETS = [None, 0, 40, 333, 700]


def whole(image: Image, path: list[str]) -> dict[str, Any]:
    """The tree below a path, level by level."""
    found = browse(image, path)
    assert found["total"] == len(found["entries"]) and found["offset"] == image.next_offset
    below: dict[str, Any] = {}
    for name, value, *size in found["entries"]:
        below[name] = whole(image, [*path, name]) if size else value
        assert size == ([len(below[name])] if isinstance(below[name], dict) else []), (path, name)
    return below


@pytest.mark.parametrize("offset", OFFSETS)
def test_levels_together_are_the_tree_of_kwire_state(offset: int | None) -> None:
    found = whole(state(offset), [])
    assert found == shell_view(state(offset))
    assert any(isinstance(entry, dict) for entry in found.values()), "some entries are nested"


def test_long_levels_come_in_parts_and_can_be_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_browser, "ENTRIES_MAX", 3)
    names = sorted(state().topic_ids)
    found = browse(state(), ["topics", "byName"], start=2)
    assert [entry[0] for entry in found["entries"]] == names[2:5]
    assert found["total"] == len(names)
    text = names[1][1:].upper()
    filtered = browse(state(), ["topics", "byName"], text=text)
    assert [one[0] for one in filtered["entries"]] == [
        name for name in names if text.lower() in name.lower()
    ][:3]


@pytest.mark.parametrize(
    "path",
    [
        ["nothing"],
        ["topics", "byName", "nothing"],
        ["topics", "byId", "?"],
        ["provenance", "epoch"],
    ],
)
def test_path_that_is_not_there_is_named(path: list[str]) -> None:
    with pytest.raises(NoSuchPath, match=path[-1].replace("?", r"\?")):
        browse(state(), path)


@pytest.mark.parametrize(("before", "after"), [(0, None), (333, None), (None, 333), (40, 700)])
def test_differences_are_those_of_kwire_diff(
    before: int | None, after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_browser, "DIFFERENCES_MAX", 100_000)
    monkeypatch.setattr(state_browser, "_COMPARED", 2)
    found = differences(state(before), state(after))
    expected = [one.without_secrets() for one in difference(state(before), state(after))]
    assert not found["more"]
    assert len(found["differences"]) == len(expected) > 0
    assert {tuple(one["path"]): one for one in found["differences"]} == {
        one.place: {
            "change": one.change,
            "path": list(one.place),
            "before": one.before,
            "after": one.after,
        }
        for one in expected
    }


def test_many_differences_end_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_browser, "DIFFERENCES_MAX", 5)
    found = differences(state(0), state())
    assert found["more"] and len(found["differences"]) == 5


def test_image_is_not_changed() -> None:
    before = len(state().topic_ids), len(changes())
    browse(state(), [])
    assert before == (len(state().topic_ids), len(changes()))
