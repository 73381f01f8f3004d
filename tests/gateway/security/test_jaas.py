"""sasl.jaas.config as Kafka reads it. The expected values are those of
``JaasContext.loadClientContext`` of Kafka 4.3.1.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.jaas import JaasError, LoginModule, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

#: Text to the options that it gives.
READ = {
    f'{MODULE} required username="alice" password="alice-secret";': {
        "username": "alice",
        "password": "alice-secret",
    },
    f"{MODULE} required username='alice' password='it\"s';": {
        "username": "alice",
        "password": 'it"s',
    },
    f"{MODULE} Optional;": {},
    f"\n{MODULE}\n\trequired\n\tusername = alice\n\tpassword= a1.b-c_d$e ;\n": {
        "username": "alice",
        "password": "a1.b-c_d$e",
    },
    rf'{MODULE} required p="a\"b\\c\n\t\101\7\7778\q\'";': {"p": "a\"b\\c\n\tA\x07?78q'"},
    rf'{MODULE} required p="\400\08\377";': {"p": " 0\x008ÿ"},
    f'{MODULE} required // a remark ; password="no"\n p="a//b/*c*/" /* q="no" */ r="x";': {
        "p": "a//b/*c*/",
        "r": "x",
    },
    f'{MODULE} required "odd key"="v" ключ=значение;': {"odd key": "v", "ключ": "значение"},
    f'{MODULE} required p="";': {"p": ""},
    f'{MODULE} required p="a;b=c #!:";': {"p": "a;b=c #!:"},
}

#: Text to a part of what is said of it. Those marked "Java reads" are refused although Java makes
#: something of them.
REFUSED = {
    "": "the name of a login module is missing",
    ";": "the name of a login module is missing",
    MODULE: "a control flag",
    f"{MODULE} username=a;": "no control flag",
    f'{MODULE} "username"="secret";': "no control flag",
    f"{MODULE} required": "does not end with a semicolon",
    f"{MODULE} required username=secret": "does not end with a semicolon",
    f"{MODULE} required username;": "no = behind",
    f"{MODULE} required username=;": "the value of an option is missing",
    f"{MODULE} required username=": "the value of an option is missing",
    f"{MODULE} required =secret;": "the name of an option is missing",
    f"{MODULE} required password=123secret;": "cannot stand outside of quotes",
    f"{MODULE} required password=-secret;": "cannot stand outside of quotes",
    f"{MODULE} required password=se!cret;": "cannot stand outside of quotes",
    f"{MODULE} required password=sec/ret;": "cannot stand outside of quotes",
    f"{MODULE} required password=sec/ret\n;": "cannot stand outside of quotes",  # Java reads "sec"
    # Java reads "secret", then "
    f'{MODULE} required password="secret\n";': "not closed on its line",
    f'{MODULE} required password="secret;': "not closed on its line",
    f"{MODULE} required /* password=secret;": "is not closed",
    f"{MODULE} required a=b a=secret;": "given twice",  # Java reads the last
    f"{MODULE} required a=b; {MODULE} required;": "behind the semicolon",
    f"{MODULE} required a=b;;": "behind the semicolon",
}


@pytest.mark.parametrize("text", READ)
def test_text_that_kafka_reads_is_read_the_same(text: str) -> None:
    module = parse_jaas(text)
    assert module.name == MODULE
    assert {name: value.reveal() for name, value in module.options.items()} == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_malformed_text_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert REFUSED[text] in str(caught.value)
    assert "secret" not in str(caught.value) and "sec" not in str(caught.value).replace(
        "second", ""
    )


def test_the_flag_in_any_case_and_no_option_in_the_repr() -> None:
    module = parse_jaas(f'{MODULE} ReQuired password="hush";')
    assert module.flag == "REQUIRED" and "hush" not in repr(module) and "[hidden]" in repr(module)


def quote(value: str, mark: str) -> str:
    """``value`` as it is written between two ``mark``."""
    escapes = {"\\": "\\\\", mark: "\\" + mark, "\n": "\\n", "\r": "\\r"}
    return mark + "".join(escapes.get(one, one) for one in value) + mark


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    st.dictionaries(texts, texts, max_size=4),
    st.sampled_from("\"'"),
    st.sampled_from([" ", "\n", " // x\n", "/* ; */"]),
)
def test_quoted_options_are_read_back(options: dict[str, str], mark: str, blank: str) -> None:
    written = blank.join(
        f"{quote(key, mark)}{blank}={blank}{quote(value, mark)}" for key, value in options.items()
    )
    module = parse_jaas(f"{MODULE}{blank} required{blank} {written};")
    assert {name: value.reveal() for name, value in module.options.items()} == options


@given(st.text(st.sampled_from("ab1.-_$ =;\"'\\/*\n#é") | st.characters(), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_jaas(text), LoginModule)
        assert isinstance(parse_jaas(f"{MODULE} required {text};"), LoginModule)
    except JaasError as error:
        assert str(error)
