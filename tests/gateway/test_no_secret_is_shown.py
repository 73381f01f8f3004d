"""Secrets are planted in a live node and in records, and every output of server, tools and Spark is
searched for their bytes.

The metadata topic itself is served byte for byte: it takes READ, and is not among these outputs
(docs/security.md).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h11
import pytest
import trio
from click.testing import CliRunner

from gateway.cli import main as kwire
from gateway.ports.services import AUDIT_TOPIC_ID
from gateway.ports.view_topics import VIEW_TOPICS
from gateway.security.delegation_tokens import token_hmac
from gateway.security.secret import Secret
from kwire.cluster.image import Image
from kwire.cluster.shell_view import shell_view
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.own_nodes import OwnNode
from tests.gateway.server.test_scram_listeners import (
    KEY,
    PASSWORD,
    SALT,
    WITH_TOKENS,
    ask,
    log_in,
    scram_node,
)
from tests.waiting import until_async

#: Configs of the broker that are secret: by type, of a listener, and of no type that is known.
BROKER_CONFIGS = {
    "listener.name.sasl.ssl.key.password": "planted-key-password",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": "planted-jaas-config",
    "password.encoder.secret": "planted-encoder-secret",
    "my.plugin.password": "planted-plugin-password",
    "my.plugin.setting": "planted-plugin-setting",
}
#: Other resources have such only in a log of another release: type, name, value.
UNKNOWN_CONFIGS = [
    (kind, "some.future.setting", f"planted-future-{kind}") for kind in (2, 4, 8, 16, 32, 99)
]  # fmt: skip
SALTED = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), SALT, 8192)
SERVER_KEY = hmac.digest(SALTED, b"Server Key", "sha512")
STORED_KEY = hashlib.sha512(hmac.digest(SALTED, b"Client Key", "sha512")).digest()
SCRAM = [SALT, SALTED, SERVER_KEY, STORED_KEY]
SECRETS = [value.encode() for value in BROKER_CONFIGS.values()] + SCRAM
#: Bytes of a secret that are enough to recognize it: tools print only some of a value.
ENOUGH = 7


def spellings(secret: bytes) -> Iterator[bytes]:
    """How a secret can stand in an output: as it is, in hex, and in base64 at each of three
    alignments.
    """
    yield secret
    yield secret[:ENOUGH].hex().encode()
    yield secret[:ENOUGH].hex(" ").encode()
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + secret)
        yield coded[4 if shift else 0 : -4]


def found_in(output: str | bytes, secrets: Iterable[bytes]) -> list[bytes]:
    data = output.encode() if isinstance(output, str) else output
    return [secret for secret in secrets if any(spelling in data for spelling in spellings(secret))]


def command(*arguments: object) -> str:
    result = CliRunner().invoke(kwire, [*map(str, arguments)])
    assert result.exit_code in (0, 1) and (
        result.exception is None or isinstance(result.exception, SystemExit)
    ), result.output
    return result.output


def both_forms(
    *arguments: object, forms: tuple[str, str] = ("json", "text")
) -> Iterator[tuple[str, str]]:
    """(name, output) of a command in both of its forms."""
    for form in forms:
        yield f"{arguments[0]} {form}", command(*arguments, "-o", form)


async def page(address: tuple[str, int], path: str) -> bytes:
    """The body of a page of the management port."""
    async with await trio.open_tcp_stream(*address) as stream:
        client = h11.Connection(h11.CLIENT)
        headers = [("Host", f"127.0.0.1:{address[1]}"), ("Connection", "close")]
        await stream.send_all(
            client.send(h11.Request(method="GET", target=path, headers=headers)) or b""
        )
        body = b""
        async for chunk in stream:
            body += chunk
    assert b" 200 " in body[:20], body[:200]
    return body


async def raw_answer(node: OwnNode, message: Message, version: int) -> bytes:
    assert message.API_KEY is not None
    async with await connect(node.ports["PLAINTEXT"]) as client:
        await client.send(request(message.API_KEY, version, message.encode(version)))
        return await client.frame()


def fetch(topic_id: Any) -> FetchRequest:
    topic = FetchTopic(
        topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    )
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])


def tails_of_views(server: str) -> str:
    """The records of all view topics."""
    return "".join(
        command("tail", "-b", server, "--topic", topic, "--until-end") for topic in VIEW_TOPICS
    )


def alter_broker() -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in BROKER_CONFIGS.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)]
    )


async def audit_entries(node: OwnNode, action: str) -> bytes:
    """A Fetch of the audit topic, as soon as it has an entry of ``action``: consumers read an entry
    once it is on disk, which is after the response.
    """
    return await until_async(
        lambda: raw_answer(node, fetch(AUDIT_TOPIC_ID), 16),
        f"an audit entry of {action}",
        lambda answer: action.encode() in answer,
    )


async def outputs_of_a_server(node: OwnNode) -> tuple[dict[str, str | bytes], bytes]:
    """All outputs of the node after it received secrets, and the HMAC of a delegation token."""
    answer = await node.ask(alter_broker(), 1)
    assert [one.error_code for one in answer.responses] == [0], answer
    async with await connect(node.ports["SASL"]) as client:
        await log_in(client)
        token = await ask(client, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert token.error_code == 0
    await until_async(
        lambda: (4, "1") in node.quorum.image.configs and bool(node.quorum.image.tokens)
    )
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((4, "1"), (4, ""))
    ]
    describe = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    management = node.ready.management
    assert management is not None
    address = management.sock.getsockname()[:2]
    server = f"127.0.0.1:{node.ports['PLAINTEXT']}"
    found: dict[str, str | bytes] = {
        "DescribeConfigs": await raw_answer(node, describe, 4),
        "DescribeUserScramCredentials": await raw_answer(
            node, DescribeUserScramCredentialsRequest(users=None), 0
        ),
        "audit topic": await audit_entries(node, "IncrementalAlterConfigs"),
        "views": await trio.to_thread.run_sync(tails_of_views, server),
        "/status": await page(address, "/status"),
        "/metrics": await page(address, "/metrics"),
        "tail": await trio.to_thread.run_sync(command, "tail", "-b", server, "--until-end"),
        "tail text": await trio.to_thread.run_sync(
            command, "tail", "-b", server, "--until-end", "-o", "text"
        ),
        "state of a server": await trio.to_thread.run_sync(command, "state", "-b", server),
    }
    assert b"my.plugin.password" in found["DescribeConfigs"]
    for name in ("tail", "state of a server", "views"):
        assert all(config in found[name] for config in BROKER_CONFIGS), name
    assert token_hmac(Secret(KEY), token.token_id) == bytes(token.hmac)
    shown = await trio.to_thread.run_sync(
        command, "tail", "-b", server, "--until-end", "--show-secrets"
    )
    assert len(found_in(shown, SECRETS)) == len(SECRETS) - 1, (
        "all but the salted password are in the log"
    )
    return found, bytes(token.hmac)


def test_no_output_of_a_server_or_of_a_tool_shows_a_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outputs: dict[str, str | bytes] = {}
    fetched = token = b""

    async def main() -> None:
        nonlocal fetched, token
        settings = {"management_listener": "127.0.0.1:0", "log_level": "debug"}
        async with scram_node(
            tmp_path,
            settings=settings,
            **WITH_TOKENS,
        ) as node:
            shown, token = await outputs_of_a_server(node)
            outputs.update(shown)
            fetched = await raw_answer(node, fetch(METADATA_TOPIC_ID), 16)

    run(main)
    logs = capfd.readouterr()
    outputs["logs"] = logs.out + logs.err
    assert "IncrementalAlterConfigs" in outputs["logs"]
    log = next(tmp_path.glob("**/__cluster_metadata-0"))
    outputs |= outputs_of_tools(log, fetched)
    shown = {
        name: found
        for name, output in outputs.items()
        if (found := found_in(output, [*SECRETS, KEY.encode(), token]))
    }
    assert not shown
    whole = len(SECRETS) - 1  # the salted password is in no log
    for arguments in (("decode", log), ("state", log), ("diff", f"{log}@0", log)):
        assert len(found_in(command(*arguments, "--show-secrets"), SECRETS)) == whole, arguments
    response = ("--response", "--api", "Fetch", "--version", "16", "--show-secrets")
    dissected = command("dissect", "--hex", fetched.hex(), *response)
    assert len(found_in(dissected, SECRETS)) == whole


def outputs_of_tools(log: Path, fetched: bytes) -> dict[str, str | bytes]:
    """Outputs of every tool that reads a log, or bytes of the protocol, without --show-secrets."""
    outputs: dict[str, str | bytes] = dict(both_forms("decode", log))
    outputs["state"] = command("state", log)
    outputs |= both_forms("diff", f"{log}@0", log)
    altered = request(44, 1, alter_broker().encode(1))
    enveloped = request(
        58,
        0,
        EnvelopeRequest(request_data=altered[4:], client_host_address=b"\x7f\0\0\1").encode(0),
    )
    for name, data, arguments in (
        ("request", altered, ()),
        ("request cut off", altered[:-8], ()),
        ("Envelope", enveloped, ()),
        ("Envelope", enveloped, ("--records",)),
        ("Fetch", fetched, ("--response", "--api", "Fetch", "--version", "16")),
        ("Fetch", fetched, ("--response", "--api", "Fetch", "--version", "16", "--records")),
        (
            "Fetch cut off",
            fetched[:-90],
            ("--response", "--api", "Fetch", "--version", "16", "--records"),
        ),
    ):
        for form, output in both_forms(
            "dissect", "--hex", data.hex(), *arguments, forms=("json", "tree")
        ):
            outputs[f"{form} of {name} {' '.join(arguments)}"] = output
    return outputs


def records() -> tuple[list[bytes], list[bytes]]:
    """(the values of records with secrets, the secrets)"""
    scram = UserScramCredentialRecord(
        name="a",
        mechanism=2,
        salt=SALT,
        stored_key=STORED_KEY,
        server_key=SERVER_KEY,
        iterations=4096,
    )
    configs = [
        ConfigRecord(resource_type=k, resource_name="1", name=name, value=value)
        for k, name, value in UNKNOWN_CONFIGS
    ]
    configs += [
        ConfigRecord(resource_type=4, resource_name="1", name=n, value=v)
        for n, v in BROKER_CONFIGS.items()
    ]
    secrets = [SALT, STORED_KEY, SERVER_KEY, *(str(one.value).encode() for one in configs)]
    damaged = encode_metadata_record(configs[0], 0) + b"?"
    return [*(encode_metadata_record(one, 0) for one in [scram, *configs]), damaged], secrets


def test_no_tool_shows_a_secret_of_a_log_of_any_release(tmp_path: Path) -> None:
    values, secrets = records()
    file = tmp_path / "00000000000000000000.log"
    batch = [
        Record(offset=at, timestamp=5, key=None, value=value) for at, value in enumerate(values)
    ]
    file.write_bytes(encode_batch(batch, partition_leader_epoch=1))
    outputs = dict(both_forms("decode", file))
    for value in values:
        for form, output in both_forms(
            "dissect", "--hex", value.hex(), "--metadata-record", forms=("json", "tree")
        ):
            outputs[f"{form} {value.hex()}"] = output
    assert not {
        name: found for name, output in outputs.items() if (found := found_in(output, secrets))
    }
    assert found_in(command("decode", file, "--show-secrets"), secrets) == secrets


def test_no_function_of_spark_shows_a_secret() -> None:
    pytest.importorskip("pyarrow")
    from kwire.spark.arrow import decode_batches, typed_batches
    from kwire.spark.exact import exact_row
    from kwire.spark.table.fold import Fold
    from kwire.spark.table.rows import Row
    from tests.kwire.spark.frames import batch

    values, secrets = records()
    values.pop()  # the damaged one: it has an error in place of data
    outputs = {"exact": json.dumps([exact_row(value, secrets=False) for value in values])}
    many = [
        value for value in values for _ in range(40)
    ]  # enough for the way that decodes records in bulk
    for bulk in (True, False):
        decoded = decode_batches(
            iter([batch(many)]), keep=(), fail_fast=True, secrets=False, bulk=bulk
        )
        outputs[f"decode {bulk}"] = repr([one.to_pylist() for one in decoded])
        for name, some in (("ConfigRecord", many[40:]), ("UserScramCredentialRecord", many[:40])):
            made = typed_batches(
                iter([batch(some)]), name=name, keep=(), fail_fast=True, secrets=False, bulk=bulk
            )
            outputs[f"{name} {bulk}"] = repr([one.to_pylist() for one in made])
    fold = Fold()
    fold.take([Row(at, 5, value) for at, value in enumerate(values)])
    outputs["tables"] = repr(fold.folded) + repr(fold.state.held)
    assert not {
        name: found for name, output in outputs.items() if (found := found_in(output, secrets))
    }
    decoded = decode_batches(iter([batch(values)]), keep=(), fail_fast=True, secrets=True)
    text = repr([one.to_pylist() for one in decoded])
    assert all(value in text for _, _, value in UNKNOWN_CONFIGS), "with secrets they are shown"


def test_no_secret_is_in_the_tree_of_an_image() -> None:
    image = Image()
    for kind, name, value in UNKNOWN_CONFIGS:
        image.configs[kind, "1"] = {name: value}
    secrets = [value.encode() for _, _, value in UNKNOWN_CONFIGS]
    assert not found_in(json.dumps(shell_view(image)), secrets)
    assert found_in(json.dumps(shell_view(image, show_secrets=True)), secrets) == secrets
