"""Jars by coordinates: what is asked of Maven, what comes from the cache, and what an error says.
Maven is a stand-in here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwire.jars.maven import MavenError, cache_dir, resolve

#: Writes a jar for every artifactId of the POM but `gone`, and counts its calls.
_MVN = """#!/usr/bin/env python3
import os, pathlib, re, sys
here = pathlib.Path(__file__).parent
(here / "calls").open("a").write("x")
pom = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
(here / "pom").write_text(pom)
(here / "options").write_text(os.environ["MAVEN_OPTS"])
out = next(a.partition("=")[2] for a in sys.argv if a.startswith("-DoutputDirectory="))
names = [n for n in re.findall("<artifactId>([^<]*)</artifactId><version>", pom) if n != "jars"]
if "gone" in names:
    sys.exit("Could not find artifact gone")
pathlib.Path(out).mkdir()
for name in names:
    (pathlib.Path(out) / (name + ".jar")).write_text("")
"""


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the stand-in, in front of the PATH; the cache is empty."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "mvn").write_text(_MVN)
    (directory / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path / "cache"))
    return directory


def test_a_flat_set_asks_for_nothing_else_and_only_once(bin_dir: Path, tmp_path: Path) -> None:
    assert cache_dir() == tmp_path / "cache"
    coordinates = ["org.example:two:1.0", "org.example:one:2.0"]
    assert [jar.name for jar in resolve(coordinates)] == ["one.jar", "two.jar"]
    assert (bin_dir / "pom").read_text().count(
        "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    ) == 2
    assert [jar.name for jar in resolve(list(reversed(coordinates)))] == ["one.jar", "two.jar"]
    assert (bin_dir / "calls").read_text() == "x"
    resolve(coordinates, transitive=True)
    assert "exclusion" not in (bin_dir / "pom").read_text()
    assert (bin_dir / "calls").read_text() == "xx"


def test_maven_starts_quickly_unless_the_user_has_options_for_it(
    bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAVEN_OPTS", raising=False)
    resolve(["org.example:one:1.0"])
    assert "-XX:TieredStopAtLevel=1" in (bin_dir / "options").read_text()
    monkeypatch.setenv("MAVEN_OPTS", "-Dhttps.proxyHost=proxy")
    resolve(["org.example:two:1.0"])
    assert (bin_dir / "options").read_text() == "-Dhttps.proxyHost=proxy"


def test_missing_artifact_is_reported_in_mavens_words_and_requested_again(bin_dir: Path) -> None:
    for calls in ("x", "xx"):
        with pytest.raises(
            MavenError,
            match=r"did not find org\.example:gone:1:(.|\n)*Could not find artifact gone",
        ):
            resolve(["org.example:gone:1"])
        assert (bin_dir / "calls").read_text() == calls


def test_missing_artifact_is_remembered_for_a_while(bin_dir: Path) -> None:
    for calls, seconds in (("x", 60.0), ("x", 60.0), ("xx", 0.0)):
        with pytest.raises(MavenError, match="Could not find artifact gone"):
            resolve(["org.example:gone:1"], keep_missing_s=seconds)
        assert (bin_dir / "calls").read_text() == calls


def test_missing_maven_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MavenError, match="mvn is not on the PATH"):
        resolve(["org.example:one:1"])
