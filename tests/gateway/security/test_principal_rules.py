"""``ssl.principal.mapping.rules``: the facts of Kafka's ``SslPrincipalMapperTest``."""

from __future__ import annotations

import pytest

from gateway.security.principal_rules import PrincipalRules

RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(subject: str, name: str) -> None:
    assert PrincipalRules(RULES).name(subject) == name


def test_by_default_the_whole_subject_is_the_name() -> None:
    assert (
        PrincipalRules().name("CN=x,O=y")
        == PrincipalRules("  DEFAULT ").name("CN=x,O=y")
        == "CN=x,O=y"
    )


def test_subject_that_fits_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="fits OU=x"):
        PrincipalRules("RULE:^CN=(.*)$/$1/").name("OU=x")


def test_slashes_commas_and_dollars() -> None:
    rules = PrincipalRules(r"RULE:^CN=([^,]{1,5})\/(.*)$/$2\/\$$1$7/, DEFAULT")
    assert rules.name("CN=a/b") == "b/$a$7"


@pytest.mark.parametrize(
    ("rule", "subject", "name"),
    [
        ("RULE:.*/x/", "CN=a", "xx"),
        ("RULE:^CN=(?<n>.*?),.*$/${n}/", "CN=a,O=b", "a"),
        ("RULE:^CN=(.*?),(.*)$/$12-$2$9/", "CN=a,O=b", "a2-O=b$9"),
        (r"RULE:^CN=(\w+).*/$1/,DEFAULT", "CN=\xe9", "CN=\xe9"),
        (r"RULE:^CN=(\d+)$/$1/,DEFAULT", "CN=\u0661", "CN=\u0661"),
        ("\0RULE:^CN=(.*)$/$1/ ", "CN=a\xa0", "a\xa0"),
    ],
)
def test_rule_makes_the_name_that_java_makes(rule: str, subject: str, name: str) -> None:
    assert PrincipalRules(rule).name(subject) == name


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "RULE:x",
        "RULE:^a$/b",
        "RULE:^(a$/b/",
        "DEFAULT DEFAULT",
        "RULE:a/b/X",
        "RULE:(?P<n>a)/$1/",
        r"RULE:^(\p{L}+)$/$1/",
        "RULE:^CN=a$/$1/",
        "RULE:^(a)$/${n}/",
        "RULE:^(a)$/$/",
        "RULE:^(a)$/$1/\xa0",
        "DEFAULT,,DEFAULT",
    ],
)
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"rule|pattern"):
        PrincipalRules(text)
