"""The steps of the check, in order of cost. A step returns a few words on what it looked at, or
raises Failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.codegen import protocol
from kwire.codegen.generate import stale, tree, write
from kwire.codegen.model import SchemaError
from kwire.codegen.protocol import newest, protocol_files
from tools.check import again, description, log_event_tables, state_diagrams, tidy
from tools.check.links import broken_links
from tools.check.waits import figures
from tools.site.build import SiteError, build

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMAS = ROOT / "schemas"

#: Generated text, facts of others, and a list that speaks of old names.
_NOT_TIDIED = ("kwire/messages/", "schemas/", "CHANGELOG.md", description.PAGE)
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-m")
#: Seconds for one test that measures, in each of several rounds.
_ROUNDS_TIMEOUT_S = 1800
#: Interoperability tests at a time. Each has as many times the patience of one alone.
_TOGETHER = 5
#: So many problems of one step are shown.
_ROWS_MAX = 60


class Failed(Exception):
    """A check failed; the text is what is printed."""


@dataclass(frozen=True)
class Step:
    """``run(fix)`` runs it; ``talks`` is true if it prints lines while it runs. ``beside`` is true
    if it runs at the same time as the steps that talk, which get most of a processor.
    ``on_demand`` is true if it runs only where it is named, and thus blocks no change.
    """

    name: str
    title: str
    run: Callable[[bool], str]
    talks: bool = False
    beside: bool = False
    on_demand: bool = False


def generated(fix: bool) -> str:
    """The committed packages, tables of log events and state diagrams are exactly what the
    generators write: nothing is changed, missing or left over.
    """
    try:
        packages = tree(SCHEMAS)
    except SchemaError as error:
        raise Failed(str(error)) from error
    problems = []
    for name, files in packages.items():
        package = ROOT / "kwire/messages" / name
        if fix:
            write(files, package)
        problems += [
            f"  {package.relative_to(ROOT)}: {problem}" for problem in stale(files, package)
        ]
    facts = protocol_files(newest(SCHEMAS / "facts"))
    if fix:
        for name, text in facts.items():
            (ROOT / "kwire/protocol" / name).write_text(text, encoding="utf-8")
    problems += [
        f"  kwire/protocol: {problem}" for problem in protocol.stale(facts, ROOT / "kwire/protocol")
    ]
    problems += _log_events(fix) + _state_diagrams(fix) + _description(fix)
    if problems:
        raise Failed("\n".join([*problems, "  python -m tools.check --fix writes them anew"]))
    return f"{sum(map(len, packages.values())) + len(facts)} modules"


def _log_events(fix: bool) -> list[str]:
    path = ROOT / log_event_tables.PAGE
    page = path.read_text(encoding="utf-8")
    try:
        written = log_event_tables.written(page)
    except log_event_tables.UnknownSectionError as error:
        return [f"  {log_event_tables.PAGE}: {error}"]
    if fix:
        path.write_text(written, encoding="utf-8")
    elif page != written:
        return [f"  {log_event_tables.PAGE}: its tables of log events differ from log_events.py"]
    return []


def _description(fix: bool) -> list[str]:
    path = ROOT / description.PAGE
    text = description.written((ROOT / description.SOURCE).read_text(encoding="utf-8"))
    if fix:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        return [f"  {description.PAGE}: differs from what {description.SOURCE} becomes"]
    return []


def _state_diagrams(fix: bool) -> list[str]:
    problems = []
    for name in state_diagrams.PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        try:
            written = state_diagrams.written(name, page)
        except state_diagrams.UnknownDiagramError as error:
            problems.append(f"  {name}: {error}")
            continue
        if fix:
            path.write_text(written, encoding="utf-8")
        elif page != written:
            problems.append(f"  {name}: its state diagrams differ from the tables of the code")
    return problems


def schema_hashes(_fix: bool) -> str:
    """Every imported schema and every release's facts have the hash in ORIGIN.json, and none is
    missing there.
    """
    origin = json.loads((SCHEMAS / "ORIGIN.json").read_text(encoding="utf-8"))
    there = {
        f"{d}/{path.name}": path
        for d in ("kafka", "old", "facts")
        for path in (SCHEMAS / d).glob("*.json")
    }
    problems = [f"  missing {name}" for name in sorted(origin.keys() - there.keys())]
    problems += [f"  without origin {name}" for name in sorted(there.keys() - origin.keys())]
    for name in sorted(origin.keys() & there.keys()):
        if hashlib.sha256(there[name].read_bytes()).hexdigest() != origin[name]["sha256"]:
            problems.append(f"  changed {name}")
    if problems:
        raise Failed(
            "\n".join([*problems, "  python -m tools.import_kafka VERSION writes them anew"])
        )
    return f"{len(there)} files"


def formatting(fix: bool) -> str:
    return _last_line(
        _quiet([sys.executable, "-m", "ruff", "format", *([] if fix else ["--check"]), "."])
    )


def lint(fix: bool) -> str:
    return _last_line(
        _quiet([sys.executable, "-m", "ruff", "check", *(["--fix"] if fix else []), "."])
    )


def plain_text(fix: bool) -> str:
    """Words, heads, widths, lengths and constructs: nothing is worse than ``tidy.json`` allows."""
    listed = _quiet(["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.md"]).splitlines()
    names = [
        name for name in listed if not name.startswith(_NOT_TIDIED) and (ROOT / name).is_file()
    ]
    found = [one for name in names for one in tidy.findings(ROOT / name, name)]
    if fix:
        tidy.write_ratchet(found)
    problems = tidy.over_ratchet(found, tidy.read_ratchet())
    if problems:
        rows = [f"  {one.path}:{one.line}: {one.rule}: {one.text}" for one in problems[:_ROWS_MAX]]
        more = len(problems) - len(rows)
        raise Failed("\n".join([*rows, *([f"  ... {more} more"] if more > 0 else [])]))
    long = [name for name in names if tidy.is_long(ROOT / name)]
    return f"{len(names)} files, {len(found)} older findings left, {len(long)} long files"


def imports(_fix: bool) -> str:
    """The contracts of setup.cfg on imports."""
    program = (
        "import sys; from importlinter.cli import lint_imports_command;"
        " sys.exit(lint_imports_command())"
    )
    return _last_line(_quiet([sys.executable, "-c", program, "--config", "setup.cfg"]))


def types(_fix: bool) -> str:
    return _last_line(_quiet([sys.executable, "-m", "mypy"]))


def collection(_fix: bool) -> str:
    """Collect every test. A file that cannot be imported is found at once, and the byte code of all
    files is there for the processes of the steps behind this one: each would write it for itself.
    """
    return _last_line(_quiet([*_PYTEST[:-1], "--collect-only", "tests"]))


def attacks(_fix: bool) -> str:
    """Run the attacks on quorums, while no other test runs: a quorum whose processes wait for a
    processor holds elections. The steps beside this one, and what fetches files for ``make test``,
    stand behind it.
    """
    return _pytest("alone", "tests/hostile")


def waiting_times(_fix: bool) -> str:
    """Measure how long clients wait, and how fast the server and the library are. Fails if a figure
    is over its bar in each of five rounds.
    """
    timeout = f"--timeout={_ROUNDS_TIMEOUT_S}"
    with tempfile.NamedTemporaryFile("r", prefix="kwire-speed-") as file:
        command = [*_PYTEST, "speed or alone", timeout, "tests"]
        env = {**os.environ, "KWIRE_SPEED": file.name}
        status = subprocess.run(command, cwd=ROOT, check=False, env=env).returncode
        found = figures(file)
    print("", *found, sep="\n  ")
    over = [one for one in found if one.over]
    if status or over:
        raise Failed("\n".join(["  see the report above", *(f"  {one}" for one in over)]))
    return f"{len(found)} figures"


#: Tests that compute and wait for nothing.
_COMPUTING = tuple(
    f"tests/kwire/{name}" for name in ("cluster", "codegen", "conformance", "records", "reference")
)


def computing_tests(_fix: bool) -> str:
    """Run the unit tests that compute, in one process: the attacks, which wait, leave the time for
    them.
    """
    return _last_line(_quiet([*_PYTEST, "not interop and not alone", *_COMPUTING]))


def unit_tests(_fix: bool) -> str:
    """Run the other unit tests, with twice as many processes as there are cores: many wait for
    processes and timeouts more than half of their time.
    """
    others = [f"--ignore={name}" for name in ("tests/interop", *_COMPUTING)]
    processes = ("-n", str(2 * (os.cpu_count() or 1)), "--dist", "loadscope")
    return _pytest("not interop and not alone", "tests", *others, *processes)


def interop(_fix: bool) -> str:
    """Run the interoperability tests, and those that fail again, alone. More run at a time than
    there are cores: each waits for JVMs and elections half of its time.
    """
    os.environ.setdefault("KWIRE_PATIENCE", str(_TOGETHER))
    beside = (
        "-n",
        str(_TOGETHER),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--durations=40",
    )
    if again.run(beside, ROOT, selected=("-m", "interop")):
        raise Failed("  see the report above")
    return ""


def _pytest(marked: str, *more: str, python: str = sys.executable) -> str:
    command = [python, *_PYTEST[1:], marked, *more]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise Failed("  see the report above")
    return ""


def links(_fix: bool) -> str:
    """Every relative link of the documents leads to a file, and to a heading where it names one."""
    pages = sorted(
        [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "schemas").rglob("*.md")]
    )
    problems = [
        f"  {page.relative_to(ROOT)}: {link}" for page in pages for link in broken_links(page)
    ]
    if problems:
        raise Failed("\n".join(problems))
    return f"{len(pages)} pages"


def site(_fix: bool) -> str:
    """The pages build as a site without a warning."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return f"{build(directory)} pages"
        except SiteError as error:
            raise Failed(str(error)) from error


def oldest(_fix: bool) -> str:
    """Run the unit tests with the oldest releases that setup.cfg allows, in an environment of
    their own. uv finds these releases (``--resolution lowest-direct``).
    """
    with tempfile.TemporaryDirectory() as directory:
        _quiet([sys.executable, "-m", "venv", directory])
        python = f"{directory}/bin/python"
        _quiet([python, "-m", "pip", "install", "-q", "uv>=0.5,<1"])
        options = ["-q", "--resolution", "lowest-direct", "--python", python]
        _quiet([python, "-m", "uv", "pip", "install", *options, ".[test]"])
        tests = ("tests/gateway", "tests/kwire", "--ignore=tests/kwire/spark")
        return _pytest("not interop", *tests, python=python)


STEPS: Sequence[Step] = (
    Step("schemas", "schema hashes", schema_hashes),
    Step("links", "links of the documents", links),
    Step("generated", "generated files fresh", generated),
    Step("format", "ruff format", formatting),
    Step("lint", "ruff lint", lint),
    Step("tidy", "plain text", plain_text),
    Step("imports", "import contracts", imports),
    Step("collection", "collection of the tests", collection, beside=True),
    Step("types", "mypy --strict", types, beside=True),
    Step("site", "site of the documents", site, beside=True),
    Step("computing", "unit tests that compute", computing_tests, beside=True),
    Step("attacks", "attacks on a server", attacks, talks=True),
    Step("tests", "other unit tests", unit_tests, talks=True),
    Step("interop", "interoperability tests", interop, talks=True, on_demand=True),
    Step("waits", "waiting times and speed", waiting_times, talks=True, on_demand=True),
    Step("oldest", "unit tests with the oldest dependencies", oldest, talks=True, on_demand=True),
)


def _quiet(command: Sequence[str]) -> str:
    """Run a tool; its output, which is shown only when it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        raise Failed(output[-8000:].rstrip())
    return output


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].rstrip(".!") if lines else ""
