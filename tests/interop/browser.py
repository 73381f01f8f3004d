"""Opens pages in headless Chromium and reads them as a person sees them, over DevTools' pipe.

``with browser() as chromium: chromium.open("file:///...")``. The page's errors and everything that
it loads are noted. It needs Debian's package ``chromium`` and nothing else; without it a test is
skipped, or fails with ``KWIRE_INTEROP=require``.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.interop.clients import missing
from tests.waiting import PATIENCE_S

#: No sandbox, as CI runs as root; no traffic of Chromium's own.
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
_NAMES: Final = ("chromium", "chromium-browser")
#: Descriptors of the pipe in Chromium: it reads commands from 3 and writes to 4.
_PIPE: Final = 'exec "$0" "$@" 3<&{read} 4>&{write}'
_FIRST_FD: Final = 10
_HEIGHT: Final = 900


class Browser:
    """A page of a running Chromium. ``errors`` has what its scripts threw and its console said;
    ``loaded`` the URL of everything that it asked for.
    """

    def __init__(self, read: int, write: int) -> None:
        self.errors: list[str] = []
        self.loaded: list[str] = []
        self._read, self._write = read, write
        self._received = b""
        self._number = 0
        self._session = ""
        self._is_loaded = False
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, url: str, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page in a window of ``width`` pixels; returns when it has loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=_HEIGHT, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        if "#" in url:  # a link within the page that is open would load nothing
            self._load("about:blank")
        self._load(url)

    def _load(self, url: str) -> None:
        self._is_loaded = False
        self._call("Page.navigate", url=url)
        self._wait_until_loaded()

    def _wait_until_loaded(self) -> None:
        while not self._is_loaded:
            self._take(self._receive())

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page. Raises RuntimeError with its error."""
        answer = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def submit(self, form: str, script: str) -> None:
        """Run ``script``, submit the form that a selector names, and wait for the next page."""
        self._is_loaded = False
        self.evaluate(f"{script}; document.querySelector('{form}').submit()")
        self._wait_until_loaded()

    def press(self, key: str) -> None:
        """Press and release a key that has no character, such as ArrowDown."""
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path: Path, *, height: int = _HEIGHT, scale: float = 1) -> None:
        """Write the upper ``height`` pixels of the page as a PNG file, ``scale`` times as large."""
        width = self.evaluate("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        answer = self._call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                result: Mapping[str, Any] = found["result"]
                return result
            self._take(found)

    def _take(self, event: Mapping[str, Any]) -> None:
        """Note an event."""
        values = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._is_loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(values["exceptionDetails"]))
            case "Log.entryAdded":
                self.errors.append(values["entry"]["text"])
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning"):
                self.errors.append(json.dumps(values["args"]))
            case "Network.requestWillBeSent":
                self.loaded.append(values["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._read], [], [], PATIENCE_S)
            assert readable, "Chromium does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium has ended"
            self._received += data
        one, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium with an empty profile; it is ended at the end. Skips the test without it."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        missing("Chromium is not on the PATH (Debian package chromium)")
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        commands, answers = _pipe(), _pipe()
        child = subprocess.Popen(
            [
                "bash", "-c", _PIPE.format(read=commands[0], write=answers[1]), program, *_FLAGS,
                f"--user-data-dir={profile}", "about:blank",
            ],
            pass_fds=(commands[0], answers[1]), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands[0])
        os.close(answers[1])
        try:
            yield Browser(answers[0], commands[1])
        finally:
            # Chromium ends all of its processes when the pipe closes.
            os.close(commands[1])
            os.close(answers[0])
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are above those that Chromium uses."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
