"""The tree against what kafka-metadata-shell printed for the same files, and what a snapshot alone
does not show.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.state_files import load_files
from kwire.cluster import Image, apply
from kwire.cluster.entities.settings import quota_entity_name
from kwire.cluster.shell_view import entities, shell_view, without_secrets
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.metadata_log.at import At
from kwire.protocol.metadata_version import RELEASES
from tests.shared import LOG_NAMES, needs_shared


def shell_tree(path: Path) -> dict[str, Any]:
    """The shell's indented text as nested mappings; what stands below a name without a colon is its
    value.
    """
    root: dict[str, Any] = {}
    stack: list[tuple[int, dict[str, Any], str]] = [(-1, {"": root}, "")]
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        indent = len(line) - len(line.lstrip(" "))
        while stack[-1][0] >= indent:
            stack.pop()
        _, holder, name = stack[-1]
        if line.endswith(":") and "(renewers" not in line:
            node = holder[name]
            node[line.strip()[:-1]] = {}
            stack.append((indent, node, line.strip()[:-1]))
        else:
            holder[name] = line.strip()
    return root


def members(text: str) -> dict[str, str]:
    """``Kind[a=1, b=[2, 3]]`` as a mapping of texts."""
    opening = re.search(r"[\[(]", text)
    assert opening is not None
    inside = text[opening.end() : -1]
    return dict(re.findall(r"(\w+)=(\[[^\]]*\]|\{[^}]*\}|.*?)(?:, (?=\w+=)|$)", inside))


def java(value: Any) -> str:
    """A plain value as Java's toString has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {one}" for name, one in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def same_members(text: str, fields: dict[str, Any]) -> None:
    expected = members(text)
    assert list(expected) == list(fields)
    for name, value in fields.items():
        if name == "listeners":
            value = [
                f"Endpoint(listenerName='{one['listenerName']}',"
                f" securityProtocol={one['securityProtocol']}, host='{one['host']}',"
                f" port={one['port']})"
                for one in value
            ]
        shown = "Optional.empty" if name == "rack" and value is None else java(value)
        assert expected[name] == (
            f"Optional[{shown}]" if name == "rack" and value is not None else shown
        ), name


def shell_files(root: Path) -> list[tuple[Path, Path]]:
    """(the shell's output, the file it read), without those that the shell printed before it had
    read anything.
    """
    found = []
    for path in sorted((root / "truth").glob("*/shell-tree-*.txt")):
        source = (
            root
            / "nodes"
            / path.parent.name
            / "__cluster_metadata-0"
            / path.name.removeprefix("shell-tree-").removesuffix(".txt")
        )
        if "offset -1, epoch -1" not in path.read_text(encoding="utf-8"):
            found.append((path, source))
    return found


@needs_shared
@pytest.mark.parametrize(
    "name", [name for name in LOG_NAMES if name not in ("p-abort", "p-large", "p-one-segments")]
)
def test_the_tree_is_the_shells(name: str, logs: Any) -> None:
    files = shell_files(logs(name))
    assert files
    for path, source in files:
        kafkas = shell_tree(path)
        state = load_files([source], At())
        kwires = shell_view(state.image, show_secrets=True, time=state.time)
        assert list(kwires) == list(kafkas)
        for kind in ("acls", "cluster", "scram"):
            compare_leaves(kafkas[kind], kwires[kind])
        compare_leaves(kafkas["topics"]["byName"], kwires["topics"]["byName"])
        compare_leaves(kafkas["topics"]["byId"], kwires["topics"]["byId"])
        assert kafkas["producerIds"] == {
            "nextProducerId": str(kwires["producerIds"]["nextProducerId"])
        }
        assert kafkas["configs"] == kwires["configs"]
        release = kwires["features"].pop("metadataVersion")["name"]
        assert kafkas["features"].pop("metadataVersion") == f"Optional[{release}]"
        assert kafkas["features"] == {key: str(level) for key, level in kwires["features"].items()}
        assert list(kafkas["delegationToken"]) == list(kwires["delegationToken"])
        where = kwires["provenance"]
        if (
            source.suffix == ".log"
        ):  # of a snapshot the shell shows where in the file it is, and when that was written
            time = where["time"].removesuffix("Z").rstrip("0").rstrip(".")
            assert (
                kafkas["provenance"]
                == f"offset {where['offset']}, epoch {where['epoch']}, time {time}Z[UTC]"
            )


def compare_leaves(kafkas: Any, kwires: Any) -> None:
    if isinstance(kafkas, str):
        if re.match(r"\w+[\[(]", kafkas):
            same_members(kafkas, kwires)
        else:
            assert kafkas == java(kwires)
        return
    assert list(kafkas) == sorted(kwires)  # the shell has partition 10 before partition 2
    for key, value in kafkas.items():
        compare_leaves(value, kwires[key])


def test_an_empty_image_has_every_branch() -> None:
    root = shell_view(Image())
    assert root["topics"] == {"byId": {}, "byName": {}} and root["scram"] == {
        "SCRAM-SHA-256": {},
        "SCRAM-SHA-512": {},
    }
    assert root["features"] == {"metadataVersion": None} and root["provenance"] == {
        "offset": -1,
        "epoch": -1,
        "time": None,
    }


def test_every_level_of_metadata_version_that_kafka_has_is_named() -> None:
    for level, name in ((1, "3.0-IV1"), (6, "3.3-IV2"), *RELEASES.items()):
        image = Image()
        apply(image, FeatureLevelRecord(name="metadata.version", feature_level=level))
        assert shell_view(image)["features"]["metadataVersion"] == {"name": name, "level": level}


def test_a_metadata_version_that_is_newer_than_this_code_shows_its_level() -> None:
    image = Image()
    apply(image, FeatureLevelRecord(name="metadata.version", feature_level=999))
    assert shell_view(image)["features"]["metadataVersion"] == {"name": None, "level": 999}


@pytest.mark.parametrize(
    ("entity", "name"),
    [
        ((("user", "ann"), ("client-id", "a")), "clientId(a)_user(ann)"),
        ((("user", None), ("client-id", None)), "clientId<default>_user<default>"),
        ((("ip", "10.1.2.3"),), "ip(10.1.2.3)"),
        ((("user", r"a(b)\c"),), r"user(a\(b\)\\c)"),
        ((("user", "<default>"),), "user(<default>)"),
        ((("zone", "z"),), "zone(z)"),
    ],
)
def test_names_of_quota_entities(entity: Any, name: str) -> None:
    assert quota_entity_name(entity) == name


def test_infinite_quotas_are_json() -> None:
    image = Image(quotas={(("user", "ann"),): {"a": 1.5, "b": float("inf"), "c": float("nan")}})
    assert dict(entities(image))["clientQuotas", "user(ann)"] == {"a": 1.5, "b": "inf", "c": "nan"}


def test_secrets_are_shown_only_with_the_option() -> None:
    image = Image()
    apply(
        image,
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2"),
    )
    apply(
        image,
        ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2"),
    )
    apply(
        image,
        UserScramCredentialRecord(
            name="ann", mechanism=1, salt=b"\x01", stored_key=b"\x02", server_key=b"\x03"
        ),
    )
    hidden, shown = shell_view(image), shell_view(image, show_secrets=True)
    assert hidden["configs"]["BROKER:1"] == {
        "log.cleaner.threads": "2",
        "ssl.key.password": "(redacted)",
    }
    assert shown["configs"]["BROKER:1"]["ssl.key.password"] == "hunter2"
    secret = hidden["scram"]["SCRAM-SHA-256"]["ann"]
    assert [secret[name] for name in ("salt", "storedKey", "serverKey")] == ["(redacted)"] * 3
    assert shown["scram"]["SCRAM-SHA-256"]["ann"]["storedKey"] == "02"


def test_fields_that_are_no_secrets_stay() -> None:
    assert without_secrets(("producerIds",), {"nextProducerId": 3}) == {"nextProducerId": 3}
