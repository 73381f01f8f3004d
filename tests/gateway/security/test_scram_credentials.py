"""``--add-scram``: text that ``kafka-storage format`` takes gives the same record, and text with
which no user could log in is refused.
"""

from __future__ import annotations

from secrets import token_bytes

import pytest

from gateway.security.scram_credentials import parse_credentials

#: StorageTool of Kafka 4.3.1 wrote these keys for ``alice``, by salted password.
SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="
SALTED = "mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="
STORED_KEY = "5d322aa071e8decb1c758c7270bd3bba1f2eb661e7f5f5ed8eac8317aec28d25"
SERVER_KEY = "65ae77476c8434848dedf1cbed6531ae216457b71f6eb3b7f82b44a6d31b4cf1"


@pytest.mark.parametrize("quote", ["", '"'])
def test_salted_password_gives_the_record_of_kafka(quote: str) -> None:
    keys = f"salt={quote}{SALT}{quote},saltedpassword={quote}{SALTED}{quote}"
    (record,) = parse_credentials([f"SCRAM-SHA-256=[name={quote}alice{quote},{keys}]"], token_bytes)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert (record.stored_key.hex(), record.server_key.hex()) == (STORED_KEY, SERVER_KEY)


def test_password_with_a_salt_gives_the_record_of_kafka() -> None:
    (record,) = parse_credentials(["SCRAM-SHA-256=[name=a,salt=YWJj,password=b]"], token_bytes)
    assert record.salt == b"abc"
    assert record.stored_key == (
        b"\xde\\_\x9a\x9c\x81\x8d\x9c{\x98\x1f\xa0z\x12Q\x05\xfe\xfefz\x1b\x1e.,9Y\xac\rvg\xe3e"
    )


def test_several_users_and_mechanisms_give_a_record_each() -> None:
    texts = [
        "SCRAM-SHA-256=[name=a,password=x=y]",
        "SCRAM-SHA-512=[name=a,password=b,iterations=8192]",
        "SCRAM-SHA-512=[name=b, password=b,]",
    ]
    found = parse_credentials(texts, token_bytes)
    assert [(one.name, one.mechanism, one.iterations) for one in found] == [
        ("a", 1, 4096),
        ("a", 2, 8192),
        ("b", 2, 4096),
    ]
    assert len({one.salt for one in found}) == 3 and len(found[1].stored_key) == 64


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SCRAM-SHA-256", "it is not of the form MECHANISM="),
        ("SCRAM-SHA-1=[name=a,password=hidden]", "'SCRAM-SHA-1' is none of SCRAM-SHA-256, "),
        ("SCRAM-SHA-256=name=a,password=hidden", "have to stand in brackets"),
        ("SCRAM-SHA-256=[name=a]", "give one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=hidden,saltedpassword=YQ==]", "give one of password"),
        ("SCRAM-SHA-256=[password=hidden]", "name is missing"),
        ("SCRAM-SHA-256=[name=,password=hidden]", "name is empty"),
        ("SCRAM-SHA-256=[name=a,password=]", "password is empty"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YQ==]", "saltedpassword needs the salt"),
        ("SCRAM-SHA-256=[name=a,password=hidden,salt=%%]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=1]", "not within 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=20000]", "not within 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=x]", "not a whole number"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=\u0664096]", "not a whole number"),
        ("SCRAM-SHA-256=[name=a,password=hidden,password=c]", "password is there twice"),
        ("SCRAM-SHA-256=[name=a,pass=hidden]", "'pass' is none of name, password"),
        ('SCRAM-SHA-256=[name=a,password="hidden,b"]', "a password cannot have a comma"),
    ],
)
def test_wrong_text_is_refused_without_its_password(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_credentials([text], token_bytes)
    assert why in str(caught.value) and "hidden" not in str(caught.value)


def test_second_credential_of_a_user_for_a_mechanism_is_refused() -> None:
    text = "SCRAM-SHA-256=[name=a,password=b]"
    with pytest.raises(ValueError, match="'a' has two credentials for SCRAM-SHA-256"):
        parse_credentials([text, text], token_bytes)
