"""Client properties as Kafka's tools take them: what they come to, and every way in which they are
refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.client_properties import (
    ClientPropertiesError,
    ClientSecurity,
    load_client_properties,
)
from tools.kafka_security import STORE_PASSWORD, Authority, properties_text

AUTHORITY = Authority()
OWN = AUTHORITY.issue("own")
PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann"'
    ' password="hush";'
)
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    (directory / "trust.p12").write_bytes(AUTHORITY.java_truststore())
    (directory / "own.p12").write_bytes(OWN.pkcs12())
    (directory / "trust.pem").write_text(AUTHORITY.pem)
    (directory / "own.pem").write_text(OWN.pem("key-hush"))
    (directory / "huge").write_bytes(bytes(16 * 1024 * 1024 + 1))
    return directory


def load(directory: Path, text: str) -> ClientSecurity:
    file = directory / "client.properties"
    file.write_text(text.replace("DIR", str(directory)), encoding="iso-8859-1")
    return load_client_properties(file)


def problems(directory: Path, text: str) -> list[str]:
    with pytest.raises(ClientPropertiesError) as caught:
        load(directory, text)
    file = str(directory / "client.properties")
    assert all(problem.startswith(f"{file}: ") for problem in caught.value.problems)
    for secret in ("hush", STORE_PASSWORD, "BEGIN"):
        assert secret not in str(caught.value)
    return [problem.removeprefix(f"{file}: ") for problem in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "bootstrap.servers=a:1\nclient.id=x\n", "security.protocol = plaintext \n"],
)
def test_without_settings_there_is_no_security(stores: Path, text: str) -> None:
    assert load(stores, text) == ClientSecurity() == ClientSecurity("PLAINTEXT", None, None)
    assert str(ClientSecurity()) == "PLAINTEXT"


def test_tls_trusts_the_system_and_checks_names_by_default(stores: Path) -> None:
    security = load(stores, "security.protocol=SSL")
    assert security.tls is not None and security.sasl is None and security.warnings == ()
    assert (security.tls.trusted, security.tls.own, security.tls.check_host_name) == (
        None,
        None,
        True,
    )
    assert security.tls.protocols == ("TLSv1.2", "TLSv1.3")


PKCS12 = f"""
security.protocol=SSL
ssl.truststore.location=DIR/trust.p12
ssl.truststore.password={STORE_PASSWORD}
ssl.keystore.location=DIR/own.p12
ssl.keystore.password={STORE_PASSWORD}
ssl.key.password={STORE_PASSWORD}
ssl.endpoint.identification.algorithm=
ssl.enabled.protocols= TLSv1.3
ssl.protocol=TLSv1.2
ssl.provider=SunJSSE
"""
PEM = """
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location=DIR/trust.pem
ssl.keystore.type=pem
ssl.keystore.location=DIR/own.pem
ssl.key.password=key-hush
ssl.endpoint.identification.algorithm=HTTPS
"""


def test_binary_and_pem_stores_give_the_same_certificates(stores: Path) -> None:
    binary, text = load(stores, PKCS12).tls, load(stores, PEM).tls
    assert binary is not None and text is not None
    assert binary.trusted == text.trusted == AUTHORITY.pem
    assert binary.own == text.own and text.own is not None and text.own.chain == OWN.chain_pem()
    assert (binary.check_host_name, text.check_host_name) == (False, True)
    assert binary.protocols == ("TLSv1.3",)
    [warning] = load(stores, PKCS12).warnings
    assert "ssl.endpoint.identification.algorithm is empty" in warning


def test_stores_written_into_the_file(stores: Path) -> None:
    values = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": OWN.key_pem("key-hush"),
        "ssl.keystore.certificate.chain": OWN.chain_pem(),
        "ssl.key.password": "key-hush",
    }
    assert load(stores, properties_text(values)).tls == load(stores, PEM).tls
    # As people write them: one line, with blanks where the lines ended.
    joined = properties_text({key: value.replace("\n", " ") for key, value in values.items()})
    assert load(stores, joined).tls == load(stores, PEM).tls


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", f"shaded.{SCRAM}")],
)
def test_sasl_properties_give_mechanism_and_user(stores: Path, mechanism: str, module: str) -> None:
    security = load(
        stores,
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module}",
    )
    assert security.sasl is not None and security.tls is None
    assert (security.sasl.mechanism, security.sasl.username, security.sasl.password.reveal()) == (
        mechanism,
        "ann",
        "hush",
    )
    assert str(security) == f"SASL_PLAINTEXT, {mechanism} as 'ann'" and "hush" not in repr(security)
    assert [("readable" in warning) for warning in security.warnings] == [True] * (
        mechanism == "PLAIN"
    )
    encrypted = load(
        stores, f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.jaas.config={module}"
    )
    assert (
        encrypted.tls is not None and encrypted.sasl == security.sasl and encrypted.warnings == ()
    )


def test_letters_are_read_as_java_reads_them(stores: Path) -> None:
    line = PLAIN.replace("hush", "\xe9\\u65e5\\ud83d\\ude00")
    security = load(
        stores, f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}"
    )
    assert security.sasl is not None and security.sasl.password.reveal() == "é日😀"


SASL = "security.protocol=SASL_SSL\nsasl.mechanism={}\nsasl.jaas.config={}\n"
SSL = "security.protocol=SSL\n"

REFUSED = {
    "security.protocol=TLS": (
        "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
    ),
    "ssl.truststore.location=DIR/trust.p12": (
        "security.protocol: missing, although ssl.truststore.location is given"
    ),
    "sasl.mechanism=PLAIN": "security.protocol: missing, although sasl.mechanism is given",
    "secutiry.protocol=SSL": "secutiry.protocol: unknown key; did you mean security.protocol?",
    "security.protocl=SSL": "security.protocl: unknown key; did you mean security.protocol?",
    "Security.Protocol=SSL": "Security.Protocol: unknown key; did you mean security.protocol?",
    SSL + "ssl.truststore.locaton=x": (
        "ssl.truststore.locaton: unknown key; did you mean ssl.truststore.location?"
    ),
    SSL + "ssl.endpoint.identification.algoritm=": (
        "did you mean ssl.endpoint.identification.algorithm?"
    ),
    SSL + "sssl.keystore.location=x": (
        "sssl.keystore.location: unknown key; did you mean ssl.keystore.location?"
    ),
    SSL + "ssl.zzz=x": "ssl.zzz: unknown key",
    SSL + "ssl.cipher.suites=TLS_AES_128_GCM_SHA256": "ssl.cipher.suites: is not supported",
    SSL + "ssl.engine.factory.class=x.Y": "ssl.engine.factory.class: is not supported",
    "config.providers=file": "config.providers: is not supported",
    SSL + "security.protocol=PLAINTEXT": "security.protocol: given twice",
    SSL + "ssl.protocol=SSLv3": "ssl.protocol: 'SSLv3' is none of",
    SSL + "ssl.enabled.protocols=TLSv1.3,TLSv1.1": "ssl.enabled.protocols: 'TLSv1.1' is none of",
    SSL + "ssl.enabled.protocols=": "ssl.enabled.protocols: '' is none of",
    SSL + "ssl.endpoint.identification.algorithm=none": "'none' is neither https nor empty",
    SSL + "ssl.truststore.type=BCFKS": "ssl.truststore.type: 'BCFKS' is none of JKS, PKCS12, PEM",
    SSL + "ssl.truststore.location=DIR/absent": (
        "ssl.truststore.location: DIR/absent cannot be read: No such file"
    ),
    SSL + "ssl.truststore.location=DIR": (
        "ssl.truststore.location: DIR cannot be read: Is a directory"
    ),
    SSL + "ssl.truststore.location=DIR/huge": "it is no store",
    SSL + "ssl.truststore.location=DIR/trust.pem": (
        "ssl.truststore.location: DIR/trust.pem: it is PEM text: set its type to PEM"
    ),
    SSL + "ssl.truststore.location=DIR/trust.p12\nssl.truststore.password=hush": (
        "its password does not open it"
    ),
    SSL + "ssl.truststore.password=hush": (
        "ssl.truststore.password: given, but no ssl.truststore.location"
    ),
    SSL + "ssl.truststore.type=PEM\nssl.truststore.password=hush\n"
    "ssl.truststore.location=DIR/trust.pem": ("type PEM has none"),
    SSL + "ssl.truststore.certificates=x": (
        "ssl.truststore.certificates: is PEM, but ssl.truststore.type is JKS"
    ),
    SSL + "ssl.truststore.type=PEM\nssl.truststore.certificates=x\nssl.truststore.location=y": (
        "one of them is enough"
    ),
    SSL + "ssl.truststore.type=PEM\nssl.truststore.certificates=x": (
        "ssl.truststore.certificates: it is no PEM text"
    ),
    SSL + "ssl.keystore.location=DIR/own.p12": "ssl.keystore.password: missing",
    SSL + "ssl.keystore.password=hush": (
        "ssl.keystore.password: given, but no ssl.keystore.location"
    ),
    SSL + "ssl.keystore.type=PEM\nssl.keystore.location=DIR/own.pem": "ssl.key.password is needed",
    SSL + "ssl.keystore.type=PEM\nssl.keystore.key=x": (
        "ssl.keystore.key: given, but no ssl.keystore.certificate.chain"
    ),
    SSL + "ssl.keystore.type=PEM\nssl.keystore.certificate.chain=x": (
        "given, but no ssl.keystore.key"
    ),
    "security.protocol=SASL_SSL": "sasl.mechanism: missing (Kafka's default is GSSAPI",
    SASL.format(
        "OAUTHBEARER", PLAIN
    ): "sasl.mechanism: 'OAUTHBEARER' is not supported: set it to one of PLAIN, SCRAM-SHA-256",
    SASL.format("plain", PLAIN): "sasl.mechanism: 'plain' is not supported",
    "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN": "sasl.jaas.config: missing",
    SASL.format("PLAIN", SCRAM): (
        "sasl.jaas.config: the login module of PLAIN is"
        " org.apache.kafka.common.security.plain.PlainLog"
    ),
    SASL.format(
        "SCRAM-SHA-256", PLAIN
    ): "sasl.jaas.config: the login module of SCRAM-SHA-256 is org",
    SASL.format("PLAIN", PLAIN[:-1]): "sasl.jaas.config: it does not end with a semicolon",
    SASL.format("PLAIN", PLAIN.replace('"hush"', '""')): "the option password is missing or empty",
    SASL.format(
        "PLAIN", PLAIN.replace("username", "user")
    ): "the option username is missing or empty",
    SASL.format(
        "PLAIN", PLAIN.replace("ann", "a\\\\000b")
    ): "the option username holds a NUL character",
    SASL.format(
        "PLAIN", PLAIN.replace("required", "required tokenauth=true")
    ): "a delegation token needs a SCRAM mechanism",
    SASL.format(
        "PLAIN", PLAIN.replace("hush", "\\ud83dhush")
    ): "sasl.jaas.config: holds half of a surrogate pair",
    SASL.format("PLAIN", PLAIN) + "sasl.login.callback.handler.class=x": (
        "sasl.login.callback.handler.class: is not supported"
    ),
    "security.protocol=\\u00zz hush": "a \\u in it is not followed by four hexadecimal digits",
}


@pytest.mark.parametrize("text", REFUSED)
def test_unusable_properties_are_refused(stores: Path, text: str) -> None:
    expected = REFUSED[text].replace("DIR", str(stores))
    assert any(expected in problem for problem in problems(stores, text)), problems(stores, text)


def test_all_faults_are_reported_at_once(stores: Path) -> None:
    lines = (
        "ssl.truststore.location=DIR/absent",
        "ssl.keystore.password=hush",
        "ssl.protocol=x",
        "sasl.mechanism=y",
    )
    assert len(problems(stores, "\n".join(("security.protocol=SASL_SSL", *lines)))) == 4


@pytest.mark.parametrize(
    "key",
    [
        "sasl.kerberos.service.name",
        "sasl.login.refresh.window.factor",
        "ssl.client.auth",
        "ssl.provider",
    ],
)
def test_keys_of_others_are_left_to_them(stores: Path, key: str) -> None:
    assert load(stores, f"security.protocol=SSL\n{key}=1").protocol == "SSL"


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ClientPropertiesError, match="cannot be read: No such file"):
        load_client_properties(tmp_path / "absent.properties")


@given(
    st.dictionaries(
        st.sampled_from(
            ["security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.keystore.type"]
        ),
        st.text(),
    )
)
def test_any_values_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.properties"
    file.write_text(properties_text(values))
    try:
        assert load_client_properties(file).protocol in ("PLAINTEXT", "SSL")
    except ClientPropertiesError as error:
        assert error.problems
