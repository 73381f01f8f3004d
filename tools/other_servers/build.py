"""Builds the programs of ``tools/other_servers``, in Go and for Node, in a directory of the caller.

Go and npm fetch the libraries at the versions that ``go.mod`` and ``package.json`` pin; Go keeps
what it compiled in its own cache. Nothing is written below ``tools``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).resolve().parent
KFAKE: Final = "github.com/twmb/franz-go/pkg/kfake"
FRANZ_GO: Final = "github.com/twmb/franz-go"
SARAMA: Final = "github.com/IBM/sarama"
#: The first build compiles every library.
_TIMEOUT_S: Final = 900


class BuildError(Exception):
    """A tool is missing or a program could not be built; the text ends with the tool's output."""


def go_program(name: str, directory: Path) -> Path:
    """Build ``tools/other_servers/go/NAME`` and return the program. Raises BuildError."""
    made = directory / name
    _run(["go", "build", "-o", str(made), f"./{name}"], _SOURCES / "go")
    return made


def node_program(directory: Path) -> Path:
    """Install the libraries of the program for Node; return ``client.js``. Raises BuildError."""
    made = directory / "node"
    shutil.copytree(_SOURCES / "node", made)
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund"], made)
    return made / "client.js"


def module_version(go_mod: str, module: str) -> str:
    """Return the version of ``module`` that the text of a ``go.mod`` requires. Raises BuildError.

    Of a version that is named by a commit, the day and the commit are returned.
    """
    found = re.search(rf"^\s*{re.escape(module)} v(\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise BuildError(f"go.mod does not require {module}")
    commit = re.fullmatch(r"[\d.]+-(?:0\.)?(\d{4})(\d\d)(\d\d)\d{6}-([0-9a-f]{12})", found[1])
    return "commit {3} of {0}-{1}-{2}".format(*commit.groups()) if commit else found[1]


def go_version(module: str) -> str:
    """Return the version of a module of ``tools/other_servers/go``."""
    return module_version((_SOURCES / "go/go.mod").read_text(encoding="utf-8"), module)


def node_version(package: str) -> str:
    """Return the version of a package of ``tools/other_servers/node``."""
    told = json.loads((_SOURCES / "node/package.json").read_text(encoding="utf-8"))
    return str(told["dependencies"][package])


def _run(command: Sequence[str], directory: Path) -> None:
    if shutil.which(command[0]) is None:
        raise BuildError(f"{command[0]} is not on the PATH")
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"[-4000:]
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
