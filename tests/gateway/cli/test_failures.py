"""Every subcommand where its streams, host names or files fail: one sentence, a documented exit
status, no traceback.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import COMMANDS, IO_FAILED, READER_GONE, main
from gateway.cli.lines import moment
from tests.gateway.steps import calls_of
from tools.gateway_process import Gateway, gateway
from tools.loop_reports import loop_reports

SAMPLE = Path(__file__).parents[3] / "gateway" / "sample" / "__cluster_metadata-0"
LOG = str(SAMPLE / "00000000000000000000.log")
MESSAGE = "schemas/kafka/FetchRequest.json"
KWIRE = (sys.executable, "-m", "gateway")
#: Arguments with which each subcommand prints something. "{server}" is the address of a running
#: `kwire serve`.
PRINTING: dict[str, Sequence[str]] = {
    "serve": ("--check-config",),
    "format": ("--random-uuid",),
    "tail": ("-b", "{server}", "--until-end"),
    "views": (),
    "state": (LOG,),
    "diff": (f"{LOG}@100", LOG),
    "report": (str(SAMPLE), "--html", "{empty}/report.html"),
    "spark": ("--help",),
    "quorum": ("describe", "--status", "-b", "{server}"),
    "rescue": ("inspect", str(SAMPLE)),
    "decode": (LOG,),
    "dissect": ("--hex", "00120000000000070003666f6f"),
    "apis": ("-b", "{server}"),
    "conform": ("--list",),
    "generate": ("--schemas", MESSAGE, "--out", "{empty}", "--check"),
    "docs": (),
}
OTHER_PRINTING: dict[str, Sequence[str]] = {
    "rules of a server": ("conform", "-b", "{server}", "--rule", "framing"),
    "rules of a log": ("conform", "--log", str(SAMPLE)),
    "state of a server": ("state", "-b", "{server}"),
    "tail of a view": (
        "tail",
        "-b",
        "{server}",
        "--topic",
        "__cluster_metadata.topics",
        "--until-end",
    ),
    "text": ("decode", "-o", "text", LOG),
    "table": ("apis", "-o", "table", "-b", "{server}"),
    "tree": ("dissect", "-o", "tree", "--hex", "00120000000000070003666f6f"),
    "version": ("--version",),
    "help": ("--help",),
}
ALL_PRINTING = {name: (name, *arguments) for name, arguments in PRINTING.items()} | OTHER_PRINTING
HOSTILE_HOSTS = {
    "300 letters": "a" * 300,
    "a long label": f"{'a' * 64}.example",
    "254 letters": ".".join(["a" * 50] * 5),
    "an empty label": "é☃..x",
    "a lone surrogate": "h\udcffst",
    "a control character": "a\x01b",
    "a letter too long for IDNA": "é" * 63,
}
#: Where each subcommand takes a host. "{host}" is replaced.
HOSTS: dict[str, Sequence[str]] = {
    "tail": ("tail", "-b", "{host}:9092"),
    "state": ("state", "-b", "{host}:9092"),
    "diff": ("diff", "{host}:9092", LOG),
    "quorum": ("quorum", "describe", "--status", "-b", "{host}:9092"),
    "rescue": ("rescue", "write", "--from", LOG, "--to", "{empty}", "--voter", "1@{host}:9093"),
    "quorum controllers": (
        "quorum",
        "describe",
        "--status",
        "--bootstrap-controller",
        "{host}:9092",
    ),
    "apis": ("apis", "-b", "{host}:9092"),
    "conform": ("conform", "{host}:9092"),
    "serve": ("serve", "--check-config", "--listeners", "PLAINTEXT://{host}:9092"),
    "serve advertised": (
        "serve",
        "--check-config",
        "--advertised-listeners",
        "PLAINTEXT://{host}:9092",
    ),
    "serve voters": ("serve", "--check-config", "--controller-quorum-voters", "1@{host}:9093"),
    "serve observer": (
        "serve",
        "--check-config",
        "--bootstrap-controller",
        "{host}:9093",
        "--data-dir",
        "{empty}",
    ),
    "serve management": (
        "serve",
        "--check-config",
        "--source",
        "sample",
        "--management-listener",
        "{host}:1",
    ),
    "format": (
        "format",
        "-t",
        "random",
        "-I",
        "1@{host}:9093:lzJaB1TCSYWnS1bFxNvWVQ",
        "--data-dir",
        "{empty}",
    ),
}
#: Where each subcommand takes a file. "{file}" is replaced.
FILES: dict[str, Sequence[str]] = {
    "serve log": ("serve", "--check-config", "--log-dir", "{file}"),
    "serve config": ("serve", "--check-config", "--config", "{file}"),
    "format config": ("format", "-s", "-t", "random", "--config", "{file}"),
    "format data": ("format", "-s", "-t", "random", "--data-dir", "{file}"),
    "state": ("state", "{file}"),
    "diff": ("diff", "{file}", LOG),
    "quorum config": (
        "quorum",
        "describe",
        "--status",
        "-b",
        "127.0.0.1:1",
        "--command-config",
        "{file}",
    ),
    "report": ("report", "{file}", "--html", "{empty}/report.html"),
    "decode": ("decode", "{file}"),
    "dissect": ("dissect", "{file}"),
    "generate schemas": ("generate", "--schemas", "{file}", "--out", "{empty}/out"),
    "generate out": ("generate", "--schemas", MESSAGE, "--out", "{file}/out"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Gateway]:
    with gateway("--source", "sample") as running:
        yield running


@pytest.fixture
def fill(tmp_path: Path) -> dict[str, str]:
    empty = tmp_path / "empty"
    empty.mkdir()
    return {"empty": str(empty)}


def run(
    arguments: Sequence[str], redirect: str = "", **fill: str
) -> subprocess.CompletedProcess[str]:
    """``kwire`` as a shell starts it, with ``redirect`` behind."""
    words = [
        word.format(**fill) if "{" in word and "\n" not in word else word for word in arguments
    ]
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirect}', "bash", *KWIRE, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The failure's sentence on standard error; usage lines may come before it."""
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith(("Error: ", "kwire "))]
    assert len(said) == 1, done.stderr
    return said[0]


def test_every_subcommand_is_tried() -> None:
    assert set(PRINTING) == set(COMMANDS)


@pytest.mark.parametrize("name", ALL_PRINTING)
@pytest.mark.parametrize(
    ("redirect", "reason"), [("> /dev/full", "No space left"), (">&-", "it is closed")]
)
def test_output_that_cannot_be_written_ends_with_74_and_a_sentence(
    name: str, redirect: str, reason: str, server: Gateway, fill: dict[str, str]
) -> None:
    done = run(ALL_PRINTING[name], redirect, server=server.bootstrap, **fill)
    said = one_sentence(done)
    assert done.returncode == IO_FAILED
    assert "standard output" in said and reason in said and LOG not in said


@pytest.mark.parametrize("name", ALL_PRINTING)
def test_reader_that_closes_the_pipe_ends_the_command_in_silence(
    name: str, server: Gateway, fill: dict[str, str]
) -> None:
    words = [word.format(server=server.bootstrap, **fill) for word in ALL_PRINTING[name]]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*KWIRE, *words],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (READER_GONE, "")


def test_errors_that_cannot_be_shown_leave_the_exit_status_as_it_is() -> None:
    for redirect in ("2>&-", "2>/dev/full"):
        assert run(["state", "/nowhere"], redirect).returncode == 2
        assert run(["apis", "-b", "127.0.0.1:1"], redirect).returncode == 1


def test_closed_streams_are_not_replaced_by_files_that_the_command_opens(tmp_path: Path) -> None:
    copy = tmp_path / "00000000000000000000.log"
    copy.write_bytes(Path(LOG).read_bytes()[:2000])
    assert run(["decode", str(copy)], "<&- >&- 2>&-").returncode == IO_FAILED
    assert copy.read_bytes() == Path(LOG).read_bytes()[:2000]


def test_json_stays_json_where_the_output_has_another_encoding() -> None:
    text = "a☃😀".encode()
    digits = (b"\0\x12\0\0\0\0\0\7" + len(text).to_bytes(2, "big") + text).hex()
    shown = {}
    for encoding in ("iso-8859-1", "utf-8"):
        done = subprocess.run(
            [*KWIRE, "dissect", "-o", "tree", "--hex", digits],
            env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=True,
        )  # fmt: skip
        shown[encoding] = done.stdout.decode(encoding)
    assert '"a☃😀"' in shown["utf-8"] and '"a\\u2603\\ud83d\\ude00"' in shown["iso-8859-1"]


def test_server_without_a_place_for_its_ready_line_serves_all_the_same(tmp_path: Path) -> None:
    for redirect in ("> /dev/full", ">&-"):
        arguments = [
            "serve",
            "--source",
            "sample",
            "--state-dir",
            str(tmp_path),
            "--listeners",
            "PLAINTEXT://127.0.0.1:0",
        ]
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" {redirect}', "bash", *KWIRE, *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = next(line for line in process.stderr if "standard output" in line)
        assert "the server runs all the same" in said
        process.terminate()
        _, rest = process.communicate(timeout=30)
        loop_reports.read("kwire serve", rest)
        assert (process.returncode, "Traceback" in rest) == (0, False)


@pytest.mark.parametrize("what", HOSTILE_HOSTS)
@pytest.mark.parametrize("name", HOSTS)
def test_unresolvable_host_is_refused_before_any_connection(
    name: str, what: str, fill: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*address: object) -> None:
        raise AssertionError(f"connects to {address}")

    words = [
        word.replace("{host}", HOSTILE_HOSTS[what]).replace("{empty}", fill["empty"])
        for word in HOSTS[name]
    ]
    monkeypatch.setattr(socket.socket, "connect", connect)
    done = CliRunner().invoke(main, words)
    assert isinstance(done.exception, SystemExit) and done.exit_code == 2, (
        done.output,
        done.exception,
    )
    assert "host name" in done.stderr or "is not HOST:PORT" in done.stderr
    assert all(len(line) < 400 for line in done.stderr.splitlines())
    assert not list(Path(fill["empty"]).iterdir())


@pytest.mark.parametrize(
    "file",
    ["/proc/self/mem", "/", "/dev/zero", "/dev/null", "{pipe}", "/etc/passwd/no", "{locked}"],
)
@pytest.mark.parametrize("name", FILES)
def test_file_that_cannot_be_used_is_named_in_a_sentence(
    name: str, file: str, tmp_path: Path, fill: dict[str, str]
) -> None:
    if file == "{pipe}" and name not in ("serve log", "state", "diff", "decode"):
        pytest.skip(
            "a named pipe may stand for this file: the command waits for its writer, as every"
            " program does"
        )
    if file == "/" and name in ("format data", "generate out", "generate schemas"):
        pytest.skip("would read all files of the machine, or write among them")
    places = {"{pipe}": tmp_path / f"{0:020}.log", "{locked}": tmp_path / "locked"}
    os.mkfifo(places["{pipe}"])
    places["{locked}"].symlink_to(
        places["{locked}"]
    )  # ELOOP: permissions do not stop a test that root runs
    words = [
        word.replace("{file}", str(places.get(file, file))).replace("{empty}", fill["empty"])
        for word in FILES[name]
    ]
    done = CliRunner().invoke(main, words)
    if (file, done.exit_code) == ("/dev/null", 0):
        assert name.endswith("config")  # an empty configuration is one
    elif (file, name) == ("/dev/null", "dissect"):
        assert done.exit_code == 1 and "at least 8 bytes" in done.stdout
    else:
        assert isinstance(done.exception, SystemExit) and done.exit_code in (1, 2), (
            done.output,
            done.exception,
        )
        assert (
            sum(line.startswith(("Error: ", "kwire ")) for line in done.stderr.splitlines()) == 1
        ), done.stderr


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "1e300", "x"])
@pytest.mark.parametrize("command", [("apis",), ("quorum", "describe", "--status")])
def test_timeout_that_no_socket_takes_is_refused(command: Sequence[str], seconds: str) -> None:
    done = CliRunner().invoke(main, [*command, "-b", "127.0.0.1:1", "--timeout", seconds])
    assert done.exit_code == 2 and "seconds" in done.stderr


def test_timestamp_that_no_calendar_has_is_shown_as_a_number() -> None:
    assert moment(2**63 - 1) == f"{2**63 - 1} ms"
    assert moment(-(2**63)) == f"{-(2**63)} ms"
    assert moment(0) == "1970-01-01 00:00:00.000"


@pytest.mark.parametrize(("data", "status"), [(b"\0", 1), (b"\0\0\0\4\0\1\0\1", 1), (b"\xff", 1)])
def test_megabyte_that_is_no_message_costs_at_most_four_times_a_quarter_of_one(
    tmp_path: Path, data: bytes, status: int
) -> None:
    def dissected(size: int) -> int:
        file = tmp_path / "bytes"
        file.write_bytes(data * (size // len(data)))
        done, calls = calls_of(lambda: CliRunner().invoke(main, ["dissect", str(file)]))
        assert done.exit_code == status and len(done.output) < 2_000_000
        return calls

    dissected(1000)  # imports
    assert dissected(1 << 20) <= 4 * dissected(1 << 18)


def test_megabyte_of_bad_frames_reports_the_number_left_out(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"\0\0\0\4\0\1\0\1" * 5000)
    done = CliRunner().invoke(main, ["dissect", str(file)])
    assert (
        "stopped at byte 8000" in done.stderr
        and "4000 more follow" in done.stderr
        and "--version" in done.stderr
    )
