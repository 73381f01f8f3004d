"""The configuration: every key by flag, environment and file; what is refused, and how that is
said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.base.address import Address
from gateway.config.checks import check
from gateway.config.config import INT_MAX, Config, ConfigError, Listener, SourceKind
from gateway.config.keys import KEYS
from gateway.config.loading import load_config

#: A text for every key that is not its default.
OTHER = {
    "broker.rack": "r1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "inter.broker.listener.name": "PLAINTEXT",
    "source": "sample",
    "process.roles": "broker,controller",
    "log.dirs": "/somewhere/__cluster_metadata-0",
    "snapshot.prefix": "false",
    "state.dir": "/somewhere/state",
    "listeners": "PLAINTEXT://127.0.0.1:1,OTHER://[::1]:2",
    "advertised.listeners": "PLAINTEXT://kafka.example:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    "max.connections.per.ip.overrides": "127.0.0.1:5",
    "log.level": "debug",
    "log.format": "json",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093,[::1]:9094,ctl3.example:9095",
    "data.dir": "/somewhere/data",
    "command.config": "/somewhere/client.properties",
    "cluster.id": "5L6g3nShT-eMCtK--X86sw",
    "quorum.history": "false",
    "metadata.log.fsync": "false",
    "management.listener": "127.0.0.1:0",
    "management.cluster.name": "payments",
    "management.allowed.hosts": "kwire.example,.svc.cluster.local",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:CN=node",
    "allow.everyone.if.no.acl.found": "true",
    "controller.listener.names": "QUORUM,OTHERS",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@[::1]:9094",
    "controller.quorum.campaign": "false",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "metadata.audit.enable": "false",
    "metadata.views.enable": "false",
    "metadata.views.list": "true",
    "metadata.views.schemas.enable": "true",
    "controller.quorum.auto.join.enable": "true",
    "group.consumer.assignors": "range",
    "group.consumer.migration.policy": "Upgrade",
}
_AT_9093 = "PLAINTEXT://h:9092,CONTROLLER://h:9093"
#: Other keys that a key needs to be valid.
NEEDS = {
    "listeners": ("listener.security.protocol.map",),
    "controller.quorum.bootstrap.servers": ("data.dir",),
    "data.dir": ("controller.quorum.bootstrap.servers",),
    "command.config": ("controller.quorum.bootstrap.servers", "data.dir"),
}


def other(name: str) -> dict[str, str]:
    """The key with a value of its own, and whatever it needs to be valid."""
    text = OTHER.get(name) or str(
        int(KEYS[name].default) + 1 if KEYS[name].default < INT_MAX else 77
    )
    return {name: text, **{need: OTHER[need] for need in NEEDS.get(name, ())}}


def refusal(**how: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(**how)
    return str(caught.value)


def test_defaults_are_loopback_and_valid() -> None:
    config = load_config()
    assert config == Config()
    assert config.listeners == (
        Listener("PLAINTEXT", "127.0.0.1", 9092),
        Listener("CONTROLLER", "127.0.0.1", 9093),
    )
    assert (config.source_kind, config.controller_listeners) == ("own", config.listeners[1:])
    assert config.security_protocol("PLAINTEXT") == "PLAINTEXT"
    assert config.connections_max_idle_ms == 600_000


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_read_from_flag_environment_and_file(name: str, tmp_path: Path) -> None:
    texts = other(name)
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in texts.items()))
    by_flag = load_config(flags=texts)
    assert getattr(by_flag, KEYS[name].attribute) != KEYS[name].default
    assert (
        load_config(environment={KEYS[key].environment: text for key, text in texts.items()})
        == by_flag
    )
    assert load_config(file=file) == by_flag


def test_assignors_have_the_names_of_kafkas_classes_too() -> None:
    text = "org.apache.kafka.coordinator.group.assignor.RangeAssignor, uniform"
    found = load_config(flags={"group.consumer.assignors": text}).group_consumer_assignors
    assert found == ("range", "uniform")


def test_flag_precedes_environment_precedes_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# as in Kafka\nnode.id = 3\nmax.connections: 5\nmax.connections.per.ip=6\n")
    config = load_config(
        flags={"node.id": "1"},
        environment={"KWIRE_NODE_ID": "2", "KWIRE_MAX_CONNECTIONS": "4"},
        file=file,
    )
    assert (config.node_id, config.max_connections, config.max_connections_per_ip) == (1, 4, 6)


def test_log_dir_is_an_alias_of_log_dirs(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dir=/data\n")
    assert load_config(file=file).log_dirs == (Path("/data"),)
    assert load_config(environment={"KWIRE_LOG_DIR": "/data"}).log_dirs == (Path("/data"),)


def test_log_dirs_are_those_of_a_node_with_roles() -> None:
    flags = {"process.roles": "broker,controller", "log.dirs": "/a, /b"}
    config = load_config(flags=flags)
    assert config.log_dirs == (Path("/a"), Path("/b"))
    assert config.metadata_log_dir == Path("/a") and config.source_kind == "own"
    config = load_config(flags={**flags, "data.dir": "/m"})
    assert config.metadata_log_dir == Path("/m")
    assert "more than once" in refusal(flags={**flags, "log.dirs": "/a,/b/../a"})
    assert "process.roles" in refusal(flags={"source": "controller", "log.dirs": "/a"})
    assert "is a list" in refusal(flags={"log.dirs": "/a,/b"})


def test_unknown_key_names_the_most_similar_one(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("max.conections=5\nlog.retention.hours=1\nzzz=1\n")
    said = refusal(file=file)
    assert "max.conections" in said and "did you mean max.connections?" in said
    assert "zzz" in said
    assert "log.retention.hours" in said
    assert "did you mean KWIRE_MAX_CONNECTIONS?" in refusal(
        environment={"KWIRE_MAX_CONECTIONS": "5"}
    )


def test_unrelated_environment_variables_are_ignored() -> None:
    others = {
        "KWIRE_SERVICE_HOST": "10.0.0.1",
        "KWIRE_PORT": "tcp://10.0.0.1:9092",
        "KWIRE_SHARED": "/x",
        "PATH": "/bin",
    }
    assert load_config(environment=others) == Config()


def test_key_given_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nnode.id=2\n")
    assert "node.id" in refusal(file=file) and "twice" in refusal(file=file)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    assert "nowhere.properties" in refusal(file=tmp_path / "nowhere.properties")
    (tmp_path / "bad").write_bytes(b"\xff\xfe=1\n")
    assert "cannot be read" in refusal(file=tmp_path / "bad")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("node.id", "one", "not a whole number"),
        ("group.consumer.assignors", "uniform,mine", "mine: there are uniform, range"),
        ("group.consumer.assignors", "range, range", "names an assignor twice"),
        ("group.consumer.assignors", " ", "is empty"),
        (
            "group.consumer.migration.policy",
            "both",
            "'both' is none of bidirectional, upgrade, downgrade, disabled",
        ),
        ("node.id", "-1", "outside 0"),
        ("node.id", "\xa01", "not a whole number"),
        ("node.id", "1_0", "not a whole number"),
        ("snapshot.prefix", "true\u2003", "neither true nor false"),
        ("controller.quorum.bootstrap.servers", "127.0.0.1:1,\xa0127.0.0.1:2", "HOST:PORT"),
        ("max.connections.per.ip.overrides", "127.0.0.1:1_0", "ADDRESS:NUMBER"),
        ("node.id", str(2**31), "outside"),
        ("max.connections", "0", "outside 1"),
        ("connections.max.idle.ms", "5", "ms"),
        ("snapshot.prefix", "yes", "neither true nor false"),
        ("source", "zookeeper", "none of auto, controller, observer, log, sample, own, quorum"),
        ("log.level", "loud", "none of debug"),
        ("listeners", "", "at least one"),
        ("listeners", "127.0.0.1:9092", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://127.0.0.1:99999", "no port 99999"),
        ("listeners", "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", "more than once"),
        ("listeners", "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:1", "two listeners"),
        ("listeners", "FOO://127.0.0.1:1", "listener.security.protocol.map: no security protocol"),
        ("listeners", "PLAINTEXT://0.0.0.0:9092", "advertised.listeners"),
        ("listeners", "PLAINTEXT://:9092", "advertised.listeners"),
        ("advertised.listeners", "FOO://host:1", "there is no listener FOO"),
        ("listener.security.protocol.map", "PLAINTEXT:TLS", "NAME:PROTOCOL"),
        ("listener.security.protocol.map", "PLAINTEXT", "NAME:PROTOCOL"),
        ("first.request.max.bytes", str(2**30), "larger than socket.request.max.bytes"),
        ("group.min.session.timeout.ms", str(2**30), "larger than group.max.session.timeout.ms"),
        ("log.dirs", "/nowhere/a,/nowhere/b", "is a list"),
        ("log.dirs", "", "empty"),
        ("controller.quorum.bootstrap.servers", "127.0.0.1", "HOST:PORT"),
        ("controller.quorum.bootstrap.servers", "127.0.0.1:0", "HOST:PORT"),
        ("controller.quorum.bootstrap.servers", "1@127.0.0.1:9093", "HOST:PORT"),
        ("controller.quorum.voters", "127.0.0.1:9093", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@127.0.0.1:1,1@127.0.0.1:2", "twice"),
        ("controller.listener.names", ",", "empty"),
        (
            "controller.quorum.retry.backoff.ms",
            "2000",
            "larger than controller.quorum.retry.backoff.max.ms",
        ),
        ("cluster.id", "", "empty"),
    ],
)
def test_invalid_value_is_refused_with_its_key(name: str, text: str, says: str) -> None:
    said = refusal(flags={name: text})
    assert says in said
    assert any(
        line.startswith((name, "listener.security.protocol.map")) for line in said.splitlines()
    )


def test_source_and_log_dirs_must_agree() -> None:
    assert "log.dirs" in refusal(flags={"source": "log"})
    assert "log.dirs" in refusal(flags={"source": "sample", "log.dirs": "/x"})
    quorum = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
    assert "data.dir: source=observer needs" in refusal(flags=quorum)
    assert "--bootstrap-controller" in refusal(flags={"source": "quorum", "data.dir": "/x"})
    assert "data.dir: means nothing with source=sample" in refusal(
        flags={"source": "sample", "data.dir": "/x"}
    )
    assert "controller.quorum.voters: means nothing with source=log" in refusal(
        flags={"log.dirs": "/x", "controller.quorum.voters": "1@h:1"}
    )
    assert "command.config: means nothing with source=log" in refusal(
        flags={"log.dirs": "/x", "command.config": "/y"}
    )
    assert load_config(flags={**quorum, "data.dir": "/x"}).source_kind == "quorum"


@pytest.mark.parametrize(
    ("flags", "is_broker"),
    [
        ({}, True),
        ({"controller.quorum.voters": "1@h:9093"}, True),
        ({"process.roles": "controller"}, False),
        ({"workers": "2"}, False),
        ({"source": "own", "controller.quorum.bootstrap.servers": "h:9093"}, False),
        ({"controller.quorum.voters": "1@h:9093,2@h:9094", "listeners": _AT_9093}, False),
        ({"controller.quorum.voters": "2@h:9093"}, False),
        ({"source": "sample"}, False),
        ({"log.dirs": "/x"}, False),
        ({"controller.quorum.bootstrap.servers": "h:9093", "data.dir": "/x"}, False),
    ],
)
def test_node_is_a_broker_by_default_on_a_quorum_of_one(
    flags: dict[str, str], is_broker: bool
) -> None:
    assert load_config(flags=flags).is_broker is is_broker


#: By process.roles: what a node is without voters, as the only voter, and as one of two; with
#: controller.quorum.bootstrap.servers in the second row. The directory's content has no part in it.
_ROLES = {
    "auto": ("both", "both", "controller"),
    "auto, bootstrap": ("observer", "controller", "controller"),
    "controller": ("controller", "controller", "controller"),
    "controller, bootstrap": ("controller", "controller", "controller"),
    "broker,controller": ("both", "both", "both"),
    "broker,controller, bootstrap": ("both", "both", "both"),
    "broker": ("refused", "refused", "refused"),
    "broker, bootstrap": ("broker", "refused", "refused"),
}


@pytest.mark.parametrize("given", _ROLES)
@pytest.mark.parametrize("number", range(3), ids=["no voters", "one voter", "two voters"])
def test_roles_voters_and_bootstrap_servers_say_what_a_node_is(given: str, number: int) -> None:
    roles, _, bootstrap = given.partition(", ")
    flags = {"process.roles": roles, "data.dir": "/x"}
    if number:
        flags["controller.quorum.voters"] = ",".join(("1@h:9093", "2@i:9093")[:number])
    if bootstrap:
        flags["controller.quorum.bootstrap.servers"] = "h:9093"
    expected = _ROLES[given][number]
    if expected == "refused":
        assert refusal(flags=flags)
        return
    config = load_config(flags=flags)
    observes = config.source_kind is SourceKind.OBSERVER
    found = {
        (False, False): "controller",
        (False, True): "both",
        (True, False): "observer",
        (True, True): "broker",
    }
    assert found[observes, config.is_broker] == expected
    # Where the source is named, it wins, and what contradicts it is refused.
    if expected == "broker":
        assert "process.roles" in refusal(flags={**flags, "source": "controller"})
    elif expected != "observer":
        assert load_config(flags={**flags, "source": "own"}).is_broker is config.is_broker


def test_broker_alone_finds_its_controllers_among_the_voters_and_is_none_of_them() -> None:
    broker = {"process.roles": "broker", "data.dir": "/x"}
    voters = {"controller.quorum.voters": "1@h:9093,2@i:9093"}
    found = load_config(flags={**broker, **voters, "node.id": "3"})
    assert found.controller_addresses == (Address("h", 9093), Address("i", 9093))
    assert "node.id: 1 is that of a controller" in refusal(flags={**broker, **voters})
    bootstrap = {**broker, "controller.quorum.bootstrap.servers": "h:9093"}
    assert "needs a controller" in refusal(flags=broker)
    assert "is a listener of controllers" in refusal(
        flags={**bootstrap, "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093"}
    )
    assert "replica.id: the quorum lists a broker by its node.id" in refusal(
        flags={**bootstrap, "replica.id": "7"}
    )
    assert "workers: a broker has one process" in refusal(flags={**bootstrap, "workers": "2"})
    assert "process.roles: broker means nothing with source=own" in refusal(
        flags={**bootstrap, "source": "own"}
    )
    assert "process.roles: controller means nothing with source=observer" in refusal(
        flags={**bootstrap, "process.roles": "controller", "source": "observer"}
    )


def test_source_controller_has_a_controller_listener() -> None:
    picked = load_config(
        flags={
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        }
    )
    assert picked.controller_listeners == (Listener("CONTROLLER", "127.0.0.1", 0),)
    assert picked.security_protocol("CONTROLLER") == "PLAINTEXT"
    named = load_config(
        flags={
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "controller.listener.names": "SSL",
        }
    )
    assert named.controller_listeners == (Listener("SSL", "127.0.0.1", 0),)
    assert "none for clients" in refusal(flags={"listeners": "CONTROLLER://127.0.0.1:9093"})
    voters = {"controller.quorum.voters": "1@127.0.0.1:9094,2@127.0.0.1:9095"}
    assert "look for node 1 at port 9094" in refusal(flags=voters)
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9094"}
    assert load_config(flags={**voters, **listeners}).source_kind == "own"
    assert (
        load_config(flags={"node.id": "3", **voters}).source_kind == "own"
    )  # no voter: an observer of that quorum


def test_names_of_kip_595_are_aliases() -> None:
    said = {
        "quorum.voters": "2@h:1",
        "quorum.fetch.timeout.ms": "300",
        "quorum.election.timeout.ms": "400",
    }
    config = load_config(
        environment={f"KWIRE_{name.upper().replace('.', '_')}": text for name, text in said.items()}
    )
    assert config.controller_quorum_voters == {2: Address("h", 1)}
    assert (
        config.controller_quorum_fetch_timeout_ms,
        config.controller_quorum_election_timeout_ms,
    ) == (300, 400)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(
            flags={"node.id": "x", "max.connections": "y"}, environment={"KWIRE_LISTENERS": "z"}
        )
    assert len(caught.value.problems) == 3


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert [name for name in KEYS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("ssl.keystore.password", "KWIRE_SSL_KEYSTORE_PASSWORD"),
        ("listener.name.clients.ssl.client.auth", "KWIRE_LISTENER_NAME_CLIENTS_SSL_CLIENT_AUTH"),
        (
            "listener.name.a_b.scram-sha-256.sasl.jaas.config",
            "KWIRE_LISTENER_NAME_A_B_SCRAM_SHA_256_SASL_JAAS_CONFIG",
        ),
        (
            "listener.name.a.plain.connections.max.reauth.ms",
            "KWIRE_LISTENER_NAME_A_PLAIN_CONNECTIONS_MAX_REAUTH_MS",
        ),
        ("sasl.mechanism.controller.protocol", "KWIRE_SASL_MECHANISM_CONTROLLER_PROTOCOL"),
    ],
)
def test_security_keys_are_read_and_never_shown(name: str, variable: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{name}=se cret \n")
    by_file = load_config(file=file)
    assert (
        by_file.security
        == load_config(environment={variable: "se cret"}).security
        == {name: "se cret"}
    )
    assert "cret" not in repr(by_file) and name not in KEYS


def test_unknown_security_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "ssl.keystore.locatoin=x\nlistener.name.a.ssl.cipher.suites=x\nsasl.jaas.config=x\n"
    )
    said = refusal(file=file)
    assert "did you mean ssl.keystore.location?" in said
    assert "listener.name.a.ssl.cipher.suites" in said and "sasl.jaas.config (" in said


def test_ipv6_listeners() -> None:
    listener, _ = load_config(flags={"listeners": "PLAINTEXT://[::1]:9092"}).listeners
    assert (listener.host, str(listener)) == ("::1", "PLAINTEXT://[::1]:9092")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("controller", SourceKind.CONTROLLER), ("own", SourceKind.CONTROLLER)],
)
@pytest.mark.parametrize("place", ["flag", "environment", "file"])
def test_source_controller_and_own_select_the_same_kind_wherever_they_are_given(
    name: str, kind: SourceKind, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"source={name}\n")
    places: dict[str, dict[str, Any]] = {
        "flag": {"flags": {"source": name}},
        "environment": {"environment": {"KWIRE_SOURCE": name}},
        "file": {"file": file},
    }
    config = load_config(**places[place])
    assert (config.source_kind, str(config.source_kind)) == (kind, "own")


@pytest.mark.parametrize("name", ["observer", "quorum"])
def test_source_observer_and_quorum_select_the_same_kind_and_name_themselves_in_errors(
    name: str,
) -> None:
    assert f"data.dir: source={name} needs" in refusal(
        flags={"source": name, "controller.quorum.bootstrap.servers": "h:9093"}
    )
    config = load_config(
        flags={
            "source": name,
            "controller.quorum.bootstrap.servers": "h:9093",
            "data.dir": "/x",
        }
    )
    assert (config.source_kind, f"{config.source_kind}") == (SourceKind.OBSERVER, "quorum")


def test_more_than_one_worker_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert Config(workers=1).workers == 1
    with pytest.raises(ConfigError, match="workers: more than one needs Linux"):
        check(Config(workers=2))
