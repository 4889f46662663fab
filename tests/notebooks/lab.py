"""JupyterLab like that of a student: a private server, and its page in a browser."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ports import free_port, opens, wait_until

#: timeout of any step except running a notebook, in seconds
PATIENCE = 60
#: pattern of errors in the log of the server
TROUBLE = re.compile(r"Traceback|^\[(E|C) |\b(ERROR|CRITICAL)\b|Exception", re.MULTILINE)
#: pattern of the start of a log entry by the server, a kernel or asyncio
ENTRY = re.compile(r"^(?=\[[DIWEC] |\[IPKernelApp\]|(?:Task|Future) exception was never retrieved)", re.MULTILINE)
#: messages about closed browsers and ended kernels, which are harmless
GONE = re.compile(
    r"^\S*(WebSocketClosedError|StreamClosedError|ZMQError: Socket operation on non-socket)", re.MULTILINE
)


class Lab:
    """`jupyter lab` on a free port, with its own folder for output and configuration."""

    def __init__(self, place: Path, notebooks: Path, theme: str = "JupyterLab Light") -> None:
        self.log = place / "server.log"
        self.token = secrets.token_hex()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        homes = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }  # fmt: skip
        settings = place / "settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
        # no requests to the internet
        (settings / "notification.jupyterlab-settings").write_text(
            json.dumps({"fetchNews": "false", "checkForUpdates": False})
        )
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--allow-root",
            f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={notebooks}",
            f"--IdentityProvider.token={self.token}", "--LabApp.extension_manager=readonly", "--LabApp.news_url=None",
        ]  # fmt: skip
        environment = {**os.environ, **{name: str(place / folder) for name, folder in homes.items()}}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=notebooks)
        wait_until(lambda: opens(f"{self.url}api"), self.process, lambda: self.log.read_text("utf-8"), PATIENCE)

    def stop(self) -> None:
        """End the server and its kernels."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def end_kernels(self) -> None:
        """End all running kernels, as on the next day."""
        for session in json.load(urllib.request.urlopen(self._api("sessions"))):
            address = self._api(f"sessions/{session['id']}")
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()

    def _api(self, path: str) -> str:
        return f"{self.url}api/{path}?token={self.token}"

    def troubles(self) -> list[str]:
        """Return the entries of its log with errors."""
        return troubles_in(self.log.read_text("utf-8"))


def troubles_in(log: str) -> list[str]:
    """Return the complete entries of a log with errors: a line, and those up to the next entry."""
    return [entry for entry in ENTRY.split(log) if TROUBLE.search(entry) and not GONE.search(entry)]


@dataclass
class Desk:
    """A notebook in a tab of the browser.

    Attributes:
        allowed: what an error may say.
        problems: errors of the page.
        elsewhere: addresses of other hosts that it asked for.
    """

    lab: Lab
    tab: Any
    allowed: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tab.set_default_timeout(1000 * PATIENCE)
        self.tab.on("pageerror", lambda error: self._complained(str(error)))
        self.tab.on("console", lambda line: self._complained(line.text) if line.type == "error" else None)
        self.tab.on("request", self._asked)

    def _complained(self, words: str) -> None:
        if not any(each in words for each in self.allowed):
            self.problems.append(words)

    def _asked(self, request: Any) -> None:
        if request.url.startswith("http") and not request.url.startswith(self.lab.url):
            self.elsewhere.append(request.url)

    def open(self, name: str) -> Desk:
        """Open a notebook, and wait until its kernel is ready."""
        self.tab.goto(f"{self.lab.url}lab/tree/{name}?token={self.lab.token}&reset")
        self.tab.locator(".jp-Notebook").wait_for()
        self.tab.get_by_text("| Idle").wait_for()
        return self

    def run_all(self, patience: float = PATIENCE) -> None:
        """Select Run → Run All Cells, and wait until every cell has run."""
        self.tab.get_by_role("menuitem", name="Run", exact=True).click()
        self.tab.get_by_text("Run All Cells", exact=True).click()
        self.rest(patience)

    def rest(self, patience: float = PATIENCE) -> None:
        """Wait until no cell is running or queued, and the kernel is idle."""
        # collapsed cells have no prompt, so the state of the kernel decides
        prompts = "[...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].map(each => each.textContent)"
        done = f"{prompts}.some(text => /\\d/.test(text)) && !{prompts}.some(text => text.includes('*'))"
        words = "[...document.querySelectorAll('.jp-StatusBar-TextItem')].map(each => each.textContent)"
        idle = f"{words}.some(text => text.endsWith('| Idle'))"
        for _ in range(2):
            self.tab.wait_for_function(f"() => {done} && {idle}", timeout=1000 * patience)
            self.tab.wait_for_timeout(500)

    def errors(self) -> list[str]:
        """Return the errors shown by cells."""
        return self.tab.locator(
            ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']"
        ).all_inner_texts()

    def save(self) -> None:
        """Select File → Save, and wait until the file is written."""
        self.tab.keyboard.press("Control+s")
        self.tab.locator(".jp-mod-dirty").wait_for(state="detached")

    def widgets(self) -> list[Any]:
        """Return the widgets of the notebook, from top to bottom."""
        return self.tab.locator(".apviz-widget").all()

    def move(self, widget: Any) -> bool:
        """Move the controls of a widget in turn until one of its figures changes; return whether one did."""
        from playwright.sync_api import TimeoutError as TooLate

        widget.scroll_into_view_if_needed()
        widget.locator(".js-plotly-plot .main-svg, .apviz-live svg").first.wait_for()
        asked = [widget.element_handle(), widget.evaluate(SHOWN)]
        for handle in widget.locator(".noUi-handle, .apviz-live input").all():
            handle.focus()
            # at the end of its range, a control moves in one direction only
            for key in ("ArrowRight", "ArrowLeft"):
                self.tab.keyboard.press(key)
                with suppress(TooLate):
                    self.tab.wait_for_function(
                        f"([widget, before]) => ({SHOWN})(widget) !== before", arg=asked, timeout=3000
                    )
                    return True
        return False


#: script that returns the content of all figures of a widget as text
SHOWN = """widget => JSON.stringify([
    ...[...widget.querySelectorAll(".js-plotly-plot")].map(each => [each.data, each.layout]),
    ...[...widget.querySelectorAll(".apviz-live svg")].map(each => each.innerHTML)
])"""
