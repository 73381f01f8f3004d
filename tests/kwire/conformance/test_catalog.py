"""The rules as a whole: ids, sources, selection."""

from __future__ import annotations

import re

import pytest

from kwire.conformance.catalog import all_rules, families, find_rule, select
from kwire.conformance.requests import small_request
from kwire.conformance.rule import release_number
from kwire.conformance.session import codec_versions
from kwire.protocol import ApiKey


def test_ids_are_unique_and_written_alike() -> None:
    ids = [rule.id for rule in all_rules()]
    assert len(set(ids)) == len(ids)
    for rule_id in ids:
        assert re.fullmatch(r"[a-z0-9-]+(\.[A-Za-z0-9-]+)+", rule_id), rule_id


def test_every_rule_is_a_sentence_with_a_source() -> None:
    for rule in all_rules():
        assert re.fullmatch(r"[A-Z].*[.]", rule.says), rule.id
        assert rule.source, rule.id
        assert release_number(rule.since), rule.id


def test_every_version_of_every_api_has_a_rule() -> None:
    ids = {rule.id for rule in all_rules()}
    for api in ApiKey:
        for version in codec_versions(api):
            assert f"schema.{api.title}.v{version}.answered" in ids


def test_every_small_request_can_be_encoded() -> None:
    for api in ApiKey:
        for version in codec_versions(api):
            assert isinstance(small_request(api, version).encode(version), bytes)


def test_a_rule_is_found_by_its_id() -> None:
    rule = find_rule("framing.size-zero")
    assert rule is not None
    assert rule.says == "A frame of size 0 closes the connection."
    assert find_rule("framing.size") is None


def test_rules_are_selected_by_family_pattern_api_and_release() -> None:
    everything = all_rules()
    assert select(everything) == list(everything)
    framing = select(everything, patterns=["framing"])
    assert {rule.family for rule in framing} == {"framing"}
    fetch = select(everything, patterns=["schema.Fetch.v12.*"])
    assert [rule.id.rpartition(".")[2] for rule in fetch] == [
        "answered", "truncated", "unknown-tags",
    ]  # fmt: skip
    assert all(ApiKey.FETCH in rule.apis for rule in select(everything, apis=[ApiKey.FETCH]))
    old = select(everything, as_of="1.0")
    assert old
    assert len(old) < len(everything)
    assert all(release_number(rule.since) <= (1, 0) for rule in old)


def test_a_release_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        select(all_rules(), as_of="new")


def test_a_family_has_a_name_and_a_title() -> None:
    for family in families():
        assert re.fullmatch(r"[a-z0-9-]+", family.name)
        assert family.title
        assert family.rules
