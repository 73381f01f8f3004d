"""A test that fails beside others and passes alone leaves the run green, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check import again

PASSES = "def test_well(): pass\n"
#: It fails where it runs first.
BUSY = """
from pathlib import Path
def test_busy():
    before = Path("ran").exists()
    Path("ran").touch()
    assert before
"""
WRONG = "def test_wrong(): assert 0\n"
BROKEN = "import nothing_of_this_name\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_later(): pass\n"


@pytest.fixture(autouse=True)
def needed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import of all other plugins takes longer than the tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist")


def run(root: Path, **files: str) -> int:
    (root / "setup.cfg").write_text("[tool:pytest]\n")
    for name, text in files.items():
        (root / f"test_{name}.py").write_text(text)
    return again.run(["-n", "2"], root, selected=["-q", "-k", "not unwanted"])


def test_run_without_failures_runs_nothing_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, a=PASSES, b=SKIPPED) == 0
    told = capfd.readouterr().out
    assert "1 passed, 1 skipped" in told.splitlines()[-1]
    assert "again" not in told


def test_test_that_passes_alone_leaves_the_run_green_and_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, a=PASSES, b=BUSY, c=SKIPPED) == 0
    *_, named, closing = capfd.readouterr().out.splitlines()
    assert named == (
        "passed when run again alone: test_b.py::test_busy, a fault of the test to be mended"
    )
    assert closing == "==== 2 passed, 1 skipped (1 of them when run again alone) ===="


def test_test_that_fails_twice_fails_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, a=PASSES, b=BUSY, c=WRONG) == 1
    told = capfd.readouterr().out
    assert "again alone: test_b.py::test_busy" in told
    assert "again alone: test_c.py" not in told
    assert told.splitlines()[-1] == (
        "==== 1 failed, 2 passed (1 of them when run again alone) ===="
    )


def test_file_that_cannot_be_imported_fails_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, a=PASSES, b=BROKEN) != 0
    told = capfd.readouterr().out
    assert "1 error" in told.splitlines()[-1]
    assert "passed when run again" not in told
