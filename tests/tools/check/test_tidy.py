"""The tidy step: each rule finds what it is for, and passes over what it is not for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.check import tidy


def rules(tmp_path: Path, text: str, name: str = "gateway/one.py") -> list[str]:
    """The rules that a file of this text breaks, in order."""
    path = tmp_path / Path(name).name
    path.write_text(text, encoding="utf-8")
    return [one.rule for one in tidy.findings(path, name)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""What a message says."""\n', "head"),
        ('"""A message. Whose it is, the header says."""\n', "head"),
        ("# Whose turn it is, the queue says.\n", "head"),
        ("x = 1  # who: a stranger\n", "word"),
        ('"""Closes the connection of whoever is idle."""\n', "word"),
        ("x = 1 or True\n", "or-true"),
        ("x = (\n    1\n    or (True)\n)\n", "or-true"),
        ("x = True or y\n", "or-true"),
        ('exec("x = 1")\n', "exec"),
        ('import sys\nsys.modules["rich"] = None\n', "hidden-module"),
        (f"x = '{'y' * 100}'\n", "width"),
        ("x = 1\n" * 601, "file-length"),
        ("def f():\n" + "    x = 1\n" * 60, "function-length"),
        ("class Hub:\n    pass\n", "name"),
        ("x = [Hub]\n", "name"),
        ('if x:\n    try:\n        y = "#"  # Who asks\n    finally:\n        pass\n', "head"),
        ('def f():\n    for x in y:\n        def g():\n            r"""Who asks."""\n', "head"),
        ('x = "# no \\" comment"  # the witness\n', "word"),
        ("def f():  # tidy: width: not this rule\n" + "    x = 1\n" * 60, "function-length"),
    ],
)
def test_a_rule_finds_what_it_is_for(tmp_path: Path, text: str, rule: str) -> None:
    assert rules(tmp_path, text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        '"""Says what a message means.\n\nReturns None where nobody_left is set.\n"""\n',
        "# The peer names itself,\n# What follows on the next line is the same sentence.\n",
        '"""Uses ``Whoever`` as a name in code."""\n',
        "x = y or False\n",
        "def f():\n" + "    x = 1\n" * 59,
        "# tidy: file-length: a reason\n" + "x = 1\n" * 600,
        "# tidy: function-length: a reason\ndef f():\n" + "    x = 1\n" * 60,
        'x = "# Who asks", \'# Who "asks"\', """\n# Who asks\n""", lambda: 1 if x else 2\n',
    ],
)
def test_plain_text_has_no_findings(tmp_path: Path, text: str) -> None:
    assert rules(tmp_path, text) == []


def test_a_page_is_wrapped_and_its_code_and_tables_are_not(tmp_path: Path) -> None:
    long = "word " * 30
    page = f"# Heading\n\n{long}\n\n| {long} |\n\n```\n{long}\n```\n"
    assert rules(tmp_path, page, "docs/page.md") == ["width"]
    assert rules(tmp_path, "## What this does\n", "docs/page.md") == ["head"]


def test_a_count_may_fall_and_never_rise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [tidy.Finding("a.py", n, "width", "") for n in (1, 2)]
    assert tidy.over_ratchet(found, {"a.py": {"width": 2}}) == []
    assert tidy.over_ratchet(found, {"a.py": {"width": 1}}) == found
    ratchet = tmp_path / "tidy.json"
    ratchet.write_text(json.dumps({"a.py": {"width": 3, "word": 1}, "gone.py": {"word": 1}}))
    monkeypatch.setattr(tidy, "RATCHET", ratchet)
    tidy.write_ratchet([*found, tidy.Finding("new.py", 1, "word", "")])
    assert tidy.read_ratchet() == {"a.py": {"width": 2}}
