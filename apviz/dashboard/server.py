"""The server of the dashboard: who may come, and what it is started with."""

from __future__ import annotations

import atexit
import gc
import logging
import re
import secrets
import traceback
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
from tornado.web import RequestHandler
from tornado.websocket import WebSocketClosedError

from apviz import datasets
from apviz.dashboard.components.chart_card import plotly_folder
from apviz.dashboard.entrance import Entrance, check_access, is_local
from apviz.dashboard.first_runs import FirstRuns
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.visitors import Visitors
from apviz.dashboard.limits import Limits
from apviz.dashboard.login import Login, Tries
from apviz.dashboard.session import Session
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.memory import give_back

#: times the seconds that a page outlives its tab, after which one that answers no ping is taken for gone: a server that
#: has much to do reads answers late, so a quarter of it was too few for twenty visitors of two busy cores
SILENT_TIMES = 8
#: bytes of a message from the browser; uploads come in smaller pieces
MESSAGE_BYTES = 64 * 2**20

#: loggers of what sends to browsers
_WRITERS = (
    "asyncio", "bokeh.server.protocol_handler", "bokeh.server.views.ws", "panel.io.document", "tornado.application",
)  # fmt: skip


def serve(
    runs: Path,
    *,
    port: int = 5006,
    address: str = "127.0.0.1",
    dataset: str | None = None,
    limits: Limits | None = None,
    lecture: bool = False,
    basic_auth: str | None = None,
    no_auth: bool = False,
    open_browser: bool = True,
    entrance: Entrance | None = None,
) -> None:
    """Serves the dashboard until Ctrl-C.

    Args:
        runs: folder of traces: shown, and where new ones go.
        address: the interface to listen on; any but this machine's own asks for a decision about who may come.
        basic_auth: a password, or a JSON file of users and passwords.
        no_auth: let everybody in who can reach the address.
        entrance: what answers there until now.

    Raises:
        ValueError: an address that others can reach without a word about who may; an empty password, or one that looks
            like a file that is not there; IPv6's own; an unknown data set.
        DatasetUnavailable: a data set that is not on this machine; with how to get it.
    """
    check_access(address, basic_auth, no_auth)
    if dataset is not None:
        datasets.require_here(dataset)
    limits = limits or Limits()
    folder, queue = RunsFolder(runs), JobQueue(limits.max_solves)
    visitors, own = Visitors(limits.job_seconds), JobQueue(1)
    # beside the queue of the visitors, who wait for none of it
    first_runs = None if folder.names() else FirstRuns(own, folder)
    pn.extension("filedropper", notifications=True)
    options: dict[str, Any] = {"basic_auth": basic_auth, "cookie_secret": secrets.token_hex()} if basic_auth else {}
    for name in _WRITERS:
        logging.getLogger(name).addFilter(_is_of_open_tab)
    for each in (queue, own):
        atexit.register(each.close)
    # what every visitor needs stays: nothing of it is looked through again when a job's garbage is collected
    gc.collect()
    gc.freeze()
    if first_runs is not None:
        first_runs.start()

    def view() -> pmui.Page:
        return Session(
            limits, queue, folder, dataset=dataset, lecture=lecture, visitors=visitors, first_runs=first_runs
        ).view()

    if entrance is not None:
        entrance.close()
    # a machine that sleeps, or a request that is never ended, holds nothing for long; live tabs answer pings at once
    silent = SILENT_TIMES * limits.tab_seconds
    server = pn.serve(
        {"/": view},
        port=port, address=address, show=open_browser, start=False, title="apviz", autoreload=False, admin=False,
        websocket_origin=_origins(address, port), static_dirs={"plotly": str(plotly_folder())},
        check_unused_sessions_milliseconds=1000 * limits.tab_seconds,
        unused_session_lifetime_milliseconds=1000 * limits.tab_seconds,
        websocket_max_message_size=MESSAGE_BYTES, keep_alive_milliseconds=0, websocket_ping_interval=silent,
        websocket_ping_timeout=silent, http_server_kwargs={"idle_connection_timeout": silent}, **options,
    )  # fmt: skip
    if is_local(address):
        names = _names(address)
        known = "|".join(map(re.escape, names))
        server._tornado.add_handlers(rf"(?!(?:{known})$).*", [(".*", _NotForThisHost, {"names": names})])
    if basic_auth:
        server._tornado.add_handlers(".*", [("/login", Login, {"tries": Tries()})])
    # what a session held is free some time after its end; not collected here, which would hold up those who are there
    pn.state.on_session_destroyed(lambda context: server.io_loop.call_later(limits.tab_seconds, give_back))
    server.start()
    server.io_loop.start()


class _NotForThisHost(RequestHandler):
    """Refuses a page under another name: that of a stranger, which was made to lead to this machine (DNS rebinding)."""

    def initialize(self, names: list[str]) -> None:
        self._names = names

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            f"This dashboard answers to {' and '.join(self._names)} only, not to {self.request.host_name}. A "
            "proxy in front of it is to send one of them as Host; to serve others, start it with --address and a "
            "password."
        )


def _is_of_open_tab(record: logging.LogRecord) -> bool:
    """Whether a line of the log is about anything but a tab that was closed while something was sent to it."""
    error = record.exc_info[1] if record.exc_info else None
    of_closed = isinstance(error, WebSocketClosedError) or (
        # a connection whose session has been let go, as its tab no longer answered
        isinstance(error, AssertionError) and _raised_in(error) == "bokeh.server.connection"
    )
    return not of_closed and "connection was closed" not in record.getMessage()


def _raised_in(error: BaseException) -> str:
    """Name of the module that raised an error."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__"))


def _origins(address: str, port: int) -> list[str]:
    """Pages of which hosts may talk to the server."""
    return [f"{name}:{port}" for name in _names(address)] if is_local(address) else ["*"]


def _names(address: str) -> list[str]:
    """Names of this machine for itself."""
    return sorted({"127.0.0.1", "localhost", address})
