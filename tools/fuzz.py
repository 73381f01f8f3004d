"""``python -m tools.fuzz``: coverage-guided fuzzing of every decoder, with atheris (the ``fuzz``
extra).

The first bytes of an input choose the message and version, the rest is its body. A fault is found
if a decoder raises anything but DecodeError, if a decoded message encodes to bytes that do not
decode to an equal message, if the generated reader and the slow walk for error messages disagree
about an input, or if one input takes longer than a second.
"""

from __future__ import annotations

import atexit
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

#: Where an input may take at most this long, in seconds; the machine may be busy, so it is
#: generous.
INPUT_SECONDS_MAX = 1.0
BUDGET = 100_000


@click.command(epilog="Example: python -m tools.fuzz --runs 1000000 --seed 1")
@click.option("--runs", default=1_000_000, show_default=True, help="Inputs to try.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--corpus",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of inputs to start from and add to.",
)
def main(runs: int, seed: int, corpus: Path | None) -> None:
    """Fuzz every message of the registry."""
    try:
        import atheris
    except ImportError:
        raise click.ClickException("atheris is missing: pip install 'kwire[fuzz]'") from None
    with atheris.instrument_imports(include=["kwire"]):
        targets = Targets(seed)
    with tempfile.TemporaryDirectory() as scratch:
        directory = corpus or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        targets.write_seeds(directory)
        options = [
            f"-atheris_runs={runs}",
            f"-seed={seed}",
            "-max_len=4096",
            "-timeout=30",
            "-rss_limit_mb=4096",
            "-len_control=0",
        ]
        # libFuzzer ends the process itself; what it leaves in the scratch directory goes with the
        # system's temporary files.
        atexit.register(targets.report)
        atheris.Setup([sys.argv[0], *options, str(directory)], targets.try_one)
        atheris.Fuzz()


class Targets:
    """Every (message, version); an input's first two bytes pick one."""

    def __init__(self, seed: int) -> None:
        import kwire

        classes = [kwire.message_type(name) for name in kwire.message_names()]
        self.all: list[tuple[Any, int]] = [
            (cls, version) for cls in classes for version in cls.VERSIONS
        ]
        random.Random(seed).shuffle(self.all)
        self.tried = 0
        self.decoded = 0
        self.broken = False

    def report(self) -> None:
        decision = "one broke a rule, see above" if self.broken else "none broke a rule"
        print(f"{self.tried} inputs tried, {self.decoded} decoded, {decision}")

    def write_seeds(self, directory: Path) -> None:
        """Write one input for each target: the message as its constructor makes it, with one
        element in every array.
        """
        from kwire.errors import EncodeError

        for i, (cls, version) in enumerate(self.all):
            for name, message in (("blank", cls()), ("one", _one_of_each(cls))):
                with contextlib.suppress(
                    EncodeError
                ):  # records at null, or a field that the version lacks
                    (directory / f"{cls.NAME}-{version}-{name}").write_bytes(
                        i.to_bytes(2, "big") + message.encode(version)
                    )

    def try_one(self, data: bytes) -> None:
        """Decode one input, and check the outcome by the rules above."""
        self.broken = True
        self.hold(data)
        self.broken = False

    def hold(self, data: bytes) -> None:
        """Raises an exception that the codec must not raise, and AssertionError for a broken
        rule.
        """
        from kwire.errors import DecodeError, EncodeError

        if len(data) < 2:
            return
        cls, version = self.all[int.from_bytes(data[:2], "big") % len(self.all)]
        self.tried += 1
        began = time.perf_counter()
        try:
            message, _ = cls.decode_from(data, version, 2, budget=BUDGET)
        except DecodeError as error:
            if not error.path or error.offset < 0 or not error.rule:
                raise AssertionError(
                    f"{cls.NAME} v{version}: an error without path, offset or rule: {error!r}"
                ) from None
            message = None
        if (took := time.perf_counter() - began) > INPUT_SECONDS_MAX:
            raise AssertionError(f"{cls.NAME} v{version}: {took:.1f} s for {len(data)} bytes")
        if message is None:
            return
        self.decoded += 1
        try:
            again = message.encode(version)
        except EncodeError as error:
            # Tags out of order, repeated or 0x7fffffff are read and not written, as in Java.
            if not error.path.endswith(".unknown_tags"):
                raise
            return
        if cls.decode(again, version).encode(version) != again:
            raise AssertionError(f"{cls.NAME} v{version}: re-encoding is not stable")


def _one_of_each(cls: Any) -> Any:
    """Return an object whose arrays, nested ones included, have one element each."""
    values: dict[str, Any] = {}
    for f in cls.fields():
        if f.type in ("records", "bytes") and not f.array:
            values[f.attr] = b"abc"
        elif f.is_struct and f.array:
            values[f.attr] = [_one_of_each(cls.struct_class(f.type))]
        elif f.is_struct and f.tag is None:
            values[f.attr] = _one_of_each(cls.struct_class(f.type))
    return cls(**values)


if __name__ == "__main__":
    main()
