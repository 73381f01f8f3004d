"""kwire.protocol against the message schemas and the imported facts, which are read apart from the
code that generates it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.codegen.protocol import newest, protocol_files, stale
from kwire.protocol import (
    FEATURES,
    ApiKey,
    ErrorCode,
    GroupState,
    MetadataVersion,
    error_name,
    known_error,
)
from kwire.protocol import metadata_version as levels
from kwire.registry import request_type

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(newest(SCHEMAS / "facts").read_text(encoding="utf-8"))
    return found


def test_error_code_has_a_name_and_a_retriable_flag() -> None:
    assert ErrorCode(3).name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [
        code.retriable
        for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    ] == [
        True,
        False,
        False,
    ]


def test_error_name_of_an_unknown_code_is_its_number() -> None:
    assert [error_name(code) for code in (-1, 58, 30_000)] == [
        "UNKNOWN_SERVER_ERROR",
        "SASL_AUTHENTICATION_FAILED",
        "30000",
    ]


def test_code_without_a_name_is_an_unknown_server_error() -> None:
    assert [known_error(code) for code in (0, 58, 30_000)] == [
        ErrorCode.NONE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]


def test_api_keys_have_the_listeners_of_the_request_schemas() -> None:
    found = {}
    for path in (SCHEMAS / "kafka").glob("*Request.json"):
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["validVersions"] != "none":
            found[raw["apiKey"]] = (
                raw["name"].removesuffix("Request"),
                frozenset(raw["listeners"]),
            )
    assert {int(key): (key.title, key.listeners) for key in ApiKey if key.versions} == found


def test_api_keys_have_the_stable_versions_of_the_messages() -> None:
    unstable = {}
    for key in ApiKey:
        if key.versions and list(key.versions) != list(range(*_span(request_type(key)))):
            unstable[key.name] = (key.versions.stop - 1, _span(request_type(key))[1] - 1)
    assert unstable == {"INIT_PRODUCER_ID": (5, 6)}


def _span(message: Any) -> tuple[int, int]:
    return min(message.VERSIONS), max(message.VERSIONS) + 1


def test_features_of_a_new_cluster_are_those_that_kafka_counts(facts: dict[str, Any]) -> None:
    for row in facts["features"]:
        feature, expected = FEATURES[row["name"]], 0
        steps = dict(row["defaults"])
        for level in facts["metadataVersions"]["levels"]:
            expected = steps.get(level["level"], expected)
            assert feature.default_level(level["level"]) == expected, (row["name"], level)


def test_functions_of_a_level_return_kafkas_values(facts: dict[str, Any]) -> None:
    asked = {
        "isScramSupported": levels.is_scram_supported,
        "isLeaderEpochBumpRequiredOnIsrShrink": levels.is_leader_epoch_bump_required_on_isr_shrink,
        "isControllerUnregistrationSupported": levels.is_controller_unregistration_supported,
        "registerBrokerRecordVersion": levels.register_broker_record_version,
        "fetchRequestVersion": levels.fetch_request_version,
    }
    for name, function in asked.items():
        steps, expected = dict(facts["metadataVersions"]["supports"][name]), None
        for level in MetadataVersion:
            expected = steps.get(int(level), expected)
            assert function(level) == expected, (name, level)


def test_level_and_state_have_the_names_that_commands_and_responses_show() -> None:
    assert MetadataVersion.IBP_4_3_IV0.release == "4.3-IV0"
    assert (MetadataVersion(7).release, f"{GroupState.PREPARING_REBALANCE}") == (
        "3.3-IV3",
        "PreparingRebalance",
    )


def test_changed_missing_and_left_over_modules_are_reported_and_hand_written_ones_stay(
    tmp_path: Path,
) -> None:
    files = protocol_files(newest(SCHEMAS / "facts"))
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "__init__.py").write_text("# by hand\n")
    assert stale(files, tmp_path) == []
    (tmp_path / "old.py").write_text(files["acl.py"])
    (tmp_path / "acl.py").write_text(files["acl.py"] + "X = 1\n")
    (tmp_path / "topic.py").unlink()
    assert stale(files, tmp_path) == ["changed acl.py", "missing topic.py", "left over old.py"]
