"""``kwire spark init`` and ``spark-pipelines run`` as docs/spark-pipelines.md has them, in an
environment of their own; and the source of changes that the project reads.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")
    pytest.importorskip("grpc", reason="grpcio is not installed (the extra 'pipelines' has it)")

import pyarrow as pa
from click.testing import CliRunner
from pyarrow import parquet

from gateway.cli import main
from kwire.records import read_header
from kwire.spark import history, read_table, tables
from kwire.spark.pipelines import RUN, prepare
from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.change_source import ChangesSource, changes_of
from kwire.spark.table.directory import cluster_of, directory_rows
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.rows import Row
from tests.documented import ROOT, blocks
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared
from tools.gateway_process import gateway
from tools.spark_home import FEW_ROWS, driver_options, environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [needs_shared, pytest.mark.timeout(900)]

PAGE = "docs/spark-pipelines.md"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    session = spark_session(kafka=False)
    prepare(session)
    return session


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def test_history_of_changes_is_that_of_the_tables(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    sources = {
        name: str(min((logs(name) / "nodes").iterdir())) for name in ("p-abort", "p-upgrade")
    }
    root = str(tmp_path)
    tables(spark, sources, root)
    given = json.dumps(list(sources.values()))
    changes = spark.read.format("kwire-changes").option("sources", given).load().cache()
    told = changes.where("op <> 'error'").drop("cluster_id", "effectiveTime")
    assert rows(told) == rows(read_table(spark, root, "changes").drop("cluster_id")) != []
    for kind in KINDS:
        found = history(changes, kind.table).drop("cluster_id")
        expected = read_table(spark, root, kind.table, history=True)
        assert rows(found) == rows(expected.drop("cluster_id")), kind.table


def test_unsupported_use_is_refused_with_a_sentence(spark: SparkSession, logs: Any) -> None:
    for options, sentence in (
        ({}, "sources is a directory"),
        ({"sources": "[1]"}, "sources is a directory"),
        ({"sources": '["/a", "/a"]'}, "names a source twice"),
        ({"sources": "/a", "startingOffsets": "1"}, "no option 'startingoffsets'"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            ChangesSource(options).reader(None)
    with pytest.raises(ValueError, match="tables are features"):
        history(spark.range(1), "topic")


def test_stream_refuses_a_log_that_is_another_one(logs: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(logs("p-one-basic") / "nodes" / "1", log)
    reader: Any = ChangesSource({"sources": str(log)}).streamReader(None)
    end = reader.latestOffset({}, None)
    shutil.rmtree(log)
    shutil.copytree(logs("p-one-segments") / "nodes" / "7", log)
    with pytest.raises(DataLossError, match="another log"):
        reader.latestOffset(end, None)


def test_kwire_spark_init_overwrites_nothing(logs: Any, tmp_path: Path) -> None:
    log, project = str(logs("p-abort") / "nodes" / "1"), tmp_path / "a project"
    command = ["spark", "init", str(project), "--source", log, "--source", "a:1,b:2"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and f"cd '{project}' && {RUN}" in done.output
    flows = project / "flows" / "metadata.py"
    assert json.dumps([log, "a:1,b:2"], indent=4) in flows.read_text(encoding="utf-8")
    flows.write_text("mine", encoding="utf-8")
    (project / "spark-pipeline.yml").unlink()
    again = CliRunner().invoke(main, command)
    assert again.exit_code == 1 and "is there already" in again.output
    assert flows.read_text(encoding="utf-8") == "mine"
    assert not (project / "spark-pipeline.yml").exists()
    wrong = CliRunner().invoke(main, ["spark", "init", str(tmp_path / "b"), "--source", "nowhere"])
    assert wrong.exit_code == 2 and "neither a directory nor HOST:PORT" in wrong.output


def test_extra_asks_for_what_pipelines_of_pyspark_need() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = settings["options.extras_require"]
    ours = {_package(one) for name in ("spark", "pipelines") for one in extras[name].split("\n")}
    theirs = [one for one in metadata.requires("pyspark") or () if 'extra == "pipelines"' in one]
    assert {_package(one) for one in theirs} <= ours and len(theirs) > 4


def _package(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0].lower()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a new environment with kwire's wheel, and the packages of this one."""
    scratch = tmp_path_factory.mktemp("environment")
    venv.create(scratch / "venv")
    python = scratch / "venv" / "bin" / "python"
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, scratch / "source", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]
    subprocess.run([*pip, "--no-deps", str(scratch / "source")], check=True, timeout=300)
    [packages] = (scratch / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    path = f"{python.parent}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    home = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    # Properties of the JVM are settings of its session, but for those that the project has.
    few = " ".join(f"-D{name}={value}" for name, value in FEW_ROWS.items())
    fast = {"JAVA_TOOL_OPTIONS": f"{driver_options()} {few}", **environment()}
    fast["PYSPARK_PYTHON"] = str(python)
    return {**home, **fast, "PATH": path, "HOME": str(scratch)}


def _commands(replaced: Callable[[str], str]) -> str:
    """The commands of the page, but for the installation."""
    [block] = [one for one in blocks() if one.page == PAGE and one.language == "bash"]
    lines = [line for line in block.text.splitlines() if not line.startswith("pip ")]
    assert lines[-1] == RUN
    return replaced("\n".join(lines))


def _half(directory: Path) -> bytes:
    """Cut the only segment of a log to half of its batches; returns the whole of it."""
    [segment] = directory.glob("__cluster_metadata-0/*.log")
    data, at = segment.read_bytes(), 0
    while at < len(data) // 2:
        at += read_header(data[at:]).size
    segment.write_bytes(data[:at])
    return data


def test_documented_commands_keep_the_tables_of_two_clusters(
    programs: dict[str, str], spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """The first run has half of one log; the second adds the rest."""
    copy = tmp_path / "log"
    shutil.copytree(logs("p-one-basic") / "nodes" / "1", copy)
    whole = _half(copy)
    served = logs("p-one-segments") / "nodes" / "7"
    with gateway("--source", "log", "--log-dir", str(served)) as server:

        def replaced(text: str) -> str:
            return text.replace("localhost:9092", server.bootstrap).replace(
                "/var/lib/kafka/metadata", str(copy)
            )

        def run(script: str) -> None:
            done = subprocess.run(
                ["bash", "-e", "-c", script],
                cwd=tmp_path,
                env=programs,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"

        run(_commands(replaced))
        first = _changes(tmp_path)
        [segment] = copy.glob("__cluster_metadata-0/*.log")
        segment.write_bytes(whole)
        run(f"cd clusters\n{RUN}")
        for block in blocks():
            if block.page == PAGE and block.language == "python":
                code = replaced(block.text).replace('"clusters/', f'"{tmp_path}/clusters/')
                exec(code, {"spark": spark})
    assert 0 < first.num_rows < _changes(tmp_path).num_rows
    expected = [*_told(copy), *_told(served)]
    assert sorted(_keys(_changes(tmp_path))) == sorted(expected)
    clusters = {str(cluster_of(str(directory))): str(directory) for directory in (copy, served)}
    tables(spark, clusters, str(tmp_path / "expected"))
    warehouse = tmp_path / "clusters" / "spark-warehouse"
    for kind in KINDS:
        found = spark.read.parquet(str(warehouse / kind.table))
        there = read_table(spark, str(tmp_path / "expected"), kind.table, history=True)
        assert rows(found) == rows(there), kind.table
    assert parquet.read_table(warehouse / "errors").num_rows == 0
    assert parquet.read_table(warehouse / "leader_moves").num_rows > 0


def _changes(directory: Path) -> pa.Table:
    return parquet.read_table(directory / "clusters" / "spark-warehouse" / "changes")


def _told(directory: Path) -> list[tuple[Any, ...]]:
    parts: Any = directory_rows(str(directory))
    return [key for table in changes_of(parts, 0) for key in _keys(table)]


def _keys(table: pa.Table) -> list[tuple[Any, ...]]:
    times = table.column("effectiveTime").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    columns = [table.column(name).to_pylist() for name in ("offset", "n", "entity", "key", "op")]
    return list(zip(*columns, times.to_pylist(), strict=True))


def test_ignored_records_are_rows_of_the_stream() -> None:
    parts: list[list[Row]] = [[Row(0, 5, b"\x01\x7f"), Row(-1, 0, None, error="damaged")]]
    found = pa.concat_tables(changes_of(iter(parts), 0)).to_pylist()
    told = [(row["op"], row["offset"], json.loads(row["after"])) for row in found]
    assert [(op, offset) for op, offset, _ in told] == [("error", 0), ("error", 1)]
    assert told[1][2] == {"error": "damaged"}
