"""Archives are unpacked whole or in part, on a Python without rules for data too."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tools.archives import extract


@pytest.mark.parametrize("has_filter", [True, False])
def test_members_with_the_prefix_are_unpacked(
    has_filter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    for name in ("a/1", "b/2"):
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text(name)
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("a", "b"):
            tar.add(tmp_path / name, name)
    extract(archive, tmp_path / "whole")
    extract(archive, tmp_path / "part", "b")
    assert (tmp_path / "whole/a/1").read_text() == "a/1"
    assert (tmp_path / "part/b/2").read_text() == "b/2"
    assert not (tmp_path / "part/a").exists()
