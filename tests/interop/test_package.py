"""The package as users install it: built, installed into a new environment, and run outside the
checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.clients import missing
from tests.interop.package import ROOT, install, run
from tests.waiting import PATIENCE_S
from tools.check.links import broken_links
from tools.loop_reports import loop_reports

pytestmark = pytest.mark.interop

#: A user's program: what the type checker of a user must understand of the package.
PROGRAM = """
from kwire.errors import DecodeError
from kwire.messages.fetch_request import FetchRequest
from kwire.records import RecordBatch, decode_batches


def round_trip(version: int) -> FetchRequest:
    data: bytes = FetchRequest(max_wait_ms=500).encode(version)
    return FetchRequest.decode(data, version)


def offsets(data: bytes) -> list[int]:
    try:
        batches: list[RecordBatch] = list(decode_batches(data))
    except DecodeError as error:
        raise SystemExit(f"byte {error.offset}: {error.reason}") from None
    return [record.offset for batch in batches for record in batch.records]


assert round_trip(13).max_wait_ms == 500 and offsets(b"") == []
"""
#: The same of Spark: makes tables of a log in each format, and prints rows of them.
TABLES = """
import json
import sys

from pyspark.sql import SparkSession

import kwire
from kwire.spark import read_table, register, tables
from kwire.spark.local import SETTINGS

log, root = sys.argv[1:]
assert kwire.__file__.startswith(sys.prefix)
spark = SparkSession.builder.master("local[1]").config(map=SETTINGS).getOrCreate()
found = {}
tables(spark, log, root)
found["changes"] = read_table(spark, root, "changes").count()
topics = read_table(spark, root, "topics").toArrow().column("name").to_pylist()
found["topics"] = sorted(topics)
register(spark)
found["records"] = spark.read.format("kwire").load(log).count()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def with_extras(installed: Path, built: Path) -> Path:
    """The same environment with the extras that tables need. The tests before have it without."""
    [wheel] = built.glob("*.whl")
    # PySpark is published as source alone. The wheel that pip made of it for the environment of
    # the tests is in pip's cache, if there is one.
    variables = {"DIST_EXTRA_CONFIG": str(ROOT / "tools" / "uncompressed_wheels.cfg")}
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(command, capture_output=True, text=True, check=False)
    if cache.returncode == 0:
        variables["PIP_CACHE_DIR"] = cache.stdout.strip()
    install(installed.parent, f"{wheel}[spark]", **variables)
    return installed


def test_build_makes_a_wheel_and_a_source_distribution(built: Path) -> None:
    assert sorted(path.suffix for path in built.iterdir()) == [".gz", ".whl"]


def test_installed_package_is_imported_from_its_environment(
    installed: Path, tmp_path: Path
) -> None:
    said = run(
        [
            installed / "python",
            "-c",
            "import kwire, gateway; print(kwire.__file__); print(gateway.__file__)",
        ],
        tmp_path,
    )
    assert all(line.startswith(str(installed.parent)) for line in said.splitlines())


def test_python_m_gateway_is_kwire(installed: Path, tmp_path: Path) -> None:
    kwire, module = [installed / "kwire"], [installed / "python", "-m", "gateway"]
    for arguments in (["--version"], ["--help"], ["serve", "--help"]):
        assert run([*kwire, *arguments], tmp_path) == run([*module, *arguments], tmp_path)  # type: ignore[list-item]


def _place(installed: Path, scratch: Path) -> Path:
    """The directory of the package ``gateway`` in an environment."""
    program = "import gateway; print(gateway.__path__[0])"
    return Path(run([installed / "python", "-c", program], scratch).strip())


def test_installed_command_decodes_the_log_that_the_package_brings(
    installed: Path, tmp_path: Path
) -> None:
    log = _place(installed, tmp_path) / "sample"
    lines = run([installed / "kwire", "decode", log], tmp_path).splitlines()
    assert len(lines) > 900 and json.loads(lines[0])["offset"] == 0


def test_installed_command_serves_the_log_to_itself(installed: Path, tmp_path: Path) -> None:
    command = [
        str(installed / "kwire"),
        "serve",
        "--source",
        "sample",
        "--listeners",
        "PLAINTEXT://127.0.0.1:0",
    ]
    server = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        address = ready["listeners"]["PLAINTEXT"]
        lines = run(
            [installed / "kwire", "tail", "-b", address, "--until-end"], tmp_path
        ).splitlines()
        assert len(lines) > 900
    finally:
        server.terminate()
        loop_reports.read("kwire serve", server.communicate(timeout=PATIENCE_S)[1])
    assert server.returncode == 0


def test_program_of_a_user_passes_mypy_strict_and_runs(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--no-incremental",
        f"--cache-dir={tmp_path / 'cache'}",
    ]
    run([*mypy, "--python-executable", installed / "python", program], tmp_path)
    run([installed / "python", program], tmp_path)


def test_extras_make_tables_in_each_format(with_extras: Path, tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None:
        missing("there is no Java on the PATH")
        return
    # As in an activated environment: Spark's workers are the python3 of the PATH.
    variables = {"PATH": f"{with_extras}:{Path(java).parent}:/usr/bin:/bin"}
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    python, log = with_extras / "python", str(_place(with_extras, tmp_path) / "sample")
    said = run([python, "-c", TABLES, log, tmp_path / "tables"], tmp_path, **variables)
    found = json.loads(said.splitlines()[-1])
    [segment] = Path(log).glob("__cluster_metadata-0/*.log")
    decoded = run([with_extras / "kwire", "decode", segment], tmp_path).splitlines()
    records = [line for line in decoded if "control" not in json.loads(line)]
    state = json.loads(run([with_extras / "kwire", "state", log, "-o", "json"], tmp_path))
    assert found.pop("records") == len(records)
    assert found["topics"] == sorted(state["topics"]["byName"]) != []
    assert found["changes"] > 500


def test_installed_package_brings_the_documentation_with_every_file_that_it_links_to(
    installed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    run([installed / "kwire", "docs", "--to", copy], tmp_path)
    pages = sorted(copy.rglob("*.md"))
    assert len(pages) > 40
    # Of the pages at the top only the README and the changelog are for users.
    broken = [f"{page}: {link}" for page in pages for link in broken_links(page)]
    assert [link for link in broken if "CONTRIBUTING.md" not in link] == []
