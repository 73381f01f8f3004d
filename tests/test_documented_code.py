"""The code of the pages: each Python block is run by a test, and each command of a shell block
names programs, modules and options that exist.

tests/interop/test_documented_commands.py runs the commands that a server answers.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final

import click
import pytest

from gateway.cli import main
from gateway.cli.spark import WithSubcommands
from tests.documented import ROOT, Block, blocks, commands

BLOCKS: Final = blocks()
#: Page -> the test that runs its Python blocks, because they need a server or Spark.
RUN_BY: Final = {
    "docs/audit.md": "tests/interop/test_audit.py",
    "docs/python.md": "tests/kwire/metadata_log/test_read.py",
    "docs/spark.md": "tests/interop/test_spark.py",
    "docs/spark-fleet.md": "tests/interop/spark_fleet.py",
    "docs/spark-questions.md": "tests/interop/test_spark_questions.py",
    "docs/spark-source.md": "tests/interop/test_spark_source.py",
    "docs/spark-tables.md": "tests/interop/test_spark_jobs.py",
    "docs/views.md": "tests/interop/test_view_sinks.py",
}
#: Programs that are not kwire's -> why their commands are not run here.
FOREIGN: Final = {
    "kcat": "needs a server: tests/interop/test_documented_commands.py",
    "kafka-": "is a tool of Kafka: tests/interop runs the tools by tools/java.py",
    "pip": "installs packages: tests/interop/test_package.py installs the wheel",
    "openssl": "makes certificates: tests/interop/test_first_hour.py",
    "spark-submit": "needs Spark: tests/interop/test_spark.py submits the examples",
    "echo": "writes for the program behind its pipe",
    "rm": "deletes the log of a stopped Kafka node: tests/interop/test_own_snapshots.py",
    "cp": "goes with rm",
    "cd": "goes with the next command",
    "curl": "needs a management port: tests/gateway/server/management",
    "jq": "rewrites JSON for another program, or follows a pipe",
    "promtool": "needs Prometheus: tests/interop/test_operations.py",
    "docker": "needs images: tests/interop/test_containers.py runs the services as processes",
    "systemctl": "needs systemd as the first process",
    "systemd-analyze": "tests/interop/test_operations.py verifies the unit",
    "useradd": "needs root",
    "install": "needs root",
    "mkdir": "goes with ssh",
    "ssh": "needs another host",
    "tar": "goes with ssh",
}


def _named(block: Block) -> str:
    return f"{block.page}:{block.line}"


def _python_here() -> list[str]:
    pages = {one.page for one in BLOCKS if one.language == "python"}
    return sorted(pages - RUN_BY.keys())


@pytest.mark.parametrize("page", _python_here())
def test_python_blocks_of_a_page_run_one_after_another(page: str) -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        if block.page == page and block.language == "python":
            exec(compile(block.text, _named(block), "exec"), names)


@pytest.mark.parametrize("page", RUN_BY)
def test_python_blocks_that_need_a_server_are_run_by_the_named_test(page: str) -> None:
    source = (ROOT / RUN_BY[page]).read_text(encoding="utf-8")
    assert page.removeprefix("docs/") in source and "exec(" in source
    assert any(block.page == page and block.language == "python" for block in BLOCKS)


@pytest.mark.parametrize("block", [one for one in BLOCKS if [*commands(one)]], ids=_named)
def test_commands_of_a_block_exist(block: Block) -> None:
    for words in commands(block):
        program = words[0]
        if program == "kwire":
            _check_kwire(words[1:])
        elif program == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert set(words[1:]) <= set(targets), words
        elif program == "python":
            _check_module(words[1:])
        else:
            assert any(program.startswith(known) for known in FOREIGN), words


def _check_kwire(words: list[str]) -> None:
    """The subcommands exist, and so do the options behind them."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    if isinstance(command, WithSubcommands) and words[0] in command.SUBCOMMANDS:
        command, words = command.SUBCOMMANDS[words[0]], words[1:]
    known = {
        name
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("-")
    } | {"-h", "--help"}
    # Behind -- is the command of another program.
    for word in words[: words.index("--") if "--" in words else None]:
        name = word.partition("=")[0]
        if re.match(r"--?[a-z]", name):
            assert name in known, (command.name, word)


def _check_module(words: list[str]) -> None:
    """``-m MODULE``: the module exists, and so do paths given to pytest and steps of the check."""
    assert words[0] == "-m", words
    module, arguments = words[1], [word for word in words[2:] if not word.startswith("-")]
    assert importlib.util.find_spec(module) is not None, words
    if module == "pytest":
        assert all((ROOT / path).exists() for path in arguments if "/" in path), words
    if module == "tools.check":
        from tools.check.steps import STEPS

        assert set(arguments) <= {step.name for step in STEPS}, words


def test_every_block_that_a_shell_could_run_has_a_language() -> None:
    bare = [
        _named(block)
        for block in BLOCKS
        if not block.language and re.match(r"(kwire|kcat|kafka-|make|python|pip) ?", block.text)
    ]
    assert not bare


PAGES: Final = sorted({*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"})
#: A path of the tree in a page, as code; it may hold ``*``.
_PATH: Final = re.compile(r"`((?:gateway|kwire|schemas|tests|tools)/[\w./*-]*\w)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    named = set(_PATH.findall(page.read_text(encoding="utf-8")))
    assert not [path for path in sorted(named) if not [*ROOT.glob(path.rstrip("/"))]]
