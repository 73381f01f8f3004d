"""Versions of the peers are read from the files that pin them."""

from __future__ import annotations

import pytest

from tools.other_servers import build

_GO_MOD = """module peers

require (
\tgithub.com/twmb/franz-go v1.22.2
\tgithub.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
)
"""


def test_a_release_is_a_version() -> None:
    assert build.module_version(_GO_MOD, build.FRANZ_GO) == "1.22.2"


def test_a_commit_is_named_with_its_day() -> None:
    version = build.module_version(_GO_MOD, build.KFAKE)
    assert version == "commit 01f206a7e32c of 2026-09-18"


def test_a_module_that_is_not_required_is_refused() -> None:
    with pytest.raises(build.BuildError, match="does not require"):
        build.module_version(_GO_MOD, build.SARAMA)


def test_the_files_pin_every_library() -> None:
    for module in (build.KFAKE, build.FRANZ_GO, build.SARAMA):
        assert build.go_version(module)
    assert build.node_version("kafkajs")[0].isdigit()
