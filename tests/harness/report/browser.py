"""A headless Chromium that opens one page and records the errors in its console."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket

from harness.eventually import eventually


class BrowserPage:
    """A page in a browser, for measurements, scripts and screenshots."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the DevTools protocol."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (told := self._next()).get("id") != number:
            pass
        assert "error" not in told, told
        return told["result"]

    def _next(self) -> Any:
        told = json.loads(self._socket.recv())
        parameters = told.get("params", {})
        match told.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning"):
                self.errors.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(parameters["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
        return told

    def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window, and light or dark mode."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def open(self, url: str) -> None:
        """Load a page, and wait until it is complete."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        eventually(lambda: self.run("document.readyState") == "complete" and self.run("location.href") == url,
                   within=30.0, describe="the page")  # fmt: skip

    def run(self, script: str) -> Any:
        """Run a script, and return its value."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def serious(self, axe: str) -> list[Any]:
        """Run axe-core, whose script is given. Return its serious and critical findings about the page."""
        self.run(axe)
        script = "axe.run().then(found => found.violations.map(each => [each.impact, each.id, each.nodes[0].html]))"
        return [each for each in self.run(script) if each[0] in ("serious", "critical")]

    def photograph(self, path: Path, *, height: int = 0) -> None:
        """Save a screenshot of the whole page, or of the top of the page up to this height."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or min(size["height"], 12000), "scale": 1}
        told = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        self._socket.close()


@contextmanager
def browser(folder: Path) -> Iterator[BrowserPage]:
    """Start Chromium with a profile in this folder."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: install it, for example with `apt-get install chromium`")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
               "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}"]  # fmt: skip
    process = subprocess.Popen([program, *options, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = folder / "DevToolsActivePort"
        eventually(lambda: port.exists() and port.read_text().count("\n") == 1, within=30.0, describe="Chromium")
        number = port.read_text().split("\n")[0]
        page = BrowserPage(_first_page(number))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(20)


def _first_page(port: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=20) as answer:
        pages = json.load(answer)
    return str(next(each["webSocketDebuggerUrl"] for each in pages if each["type"] == "page"))
