"""The server of the dashboard: its access rules and its options."""

from __future__ import annotations

import atexit
import gc
import logging
import secrets
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.core.serialization import DeserializationError
from bokeh.server import server as bokeh_server
from panel.io.server import Server
from tornado import netutil
from tornado.websocket import WebSocketClosedError

from apviz import datasets
from apviz.dashboard.components.chart_card import plotly_folder
from apviz.dashboard.entrance import Entrance, check_access
from apviz.dashboard.first_page import ScriptHandler, rehearse, use_handler
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.visitors import Visitors
from apviz.dashboard.limits import Limits
from apviz.dashboard.login import Login, Tries
from apviz.dashboard.messages import MESSAGE_BYTES, REQUEST_BYTES, bound_messages
from apviz.dashboard.origins import Origins
from apviz.dashboard.session import Session
from apviz.dashboard.store.examples import add_examples
from apviz.dashboard.store.models import Models
from apviz.dashboard.store.own_data import OwnData
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.memory import give_back

#: Multiple of `tab_seconds` after which a tab that answers no ping counts as closed. A busy server reads answers late:
#: a quarter of this value was too small for twenty visitors on two busy cores.
SILENT_TIMES = 8
#: Seconds between messages that keep the connection of an idle page open. Proxies such as nginx close it after 60.
ALIVE_SECONDS = 20
#: Most characters of a line of the log, because Bokeh logs whole messages.
LINE_CHARACTERS = 2_000

#: Loggers of the code that sends to browsers.
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
    allow_origin: Sequence[str] = (),
    open_browser: bool = True,
    entrance: Entrance | None = None,
) -> None:
    """Serve the dashboard until Ctrl-C.

    Args:
        runs: Folder of traces, from which runs are shown and to which new runs are written.
        address: Interface to listen on. Any interface but the loopback needs `basic_auth` or `no_auth`.
        basic_auth: A password, or the path of a JSON file of users and passwords.
        no_auth: Admit everyone who can reach the address.
        allow_origin: Further hosts that visitors may use: a name of this machine, or the name of a proxy.
        entrance: Server that has answered at this address until now.

    Raises:
        ValueError: Others can reach the address, but neither `basic_auth` nor `no_auth` is given; the password is empty
            or looks like a missing file; the address is the IPv6 loopback; an `allow_origin` names no host; or the data
            set is unknown.
        DatasetUnavailable: The data set is not on this machine; the message says how to get it.
    """
    check_access(address, basic_auth, no_auth)
    origins = Origins(address, allow_origin)
    if dataset is not None:
        datasets.require_here(dataset)
    limits = limits or Limits()
    folder, queue = RunsFolder(runs), JobQueue(limits.max_solves)
    visitors = Visitors(limits.job_seconds)
    add_examples(folder)
    pn.extension("filedropper", notifications=True)
    for name in _WRITERS:
        logging.getLogger(name).addFilter(_is_of_open_tab)
        logging.getLogger(name).addFilter(_shortened)
    atexit.register(queue.close)
    # Freeze the objects that every visitor shares, so that collecting a job's garbage does not scan them again.
    gc.collect()
    gc.freeze()

    session = partial(Session, limits, queue, folder, dataset=dataset, lecture=lecture, visitors=visitors)
    rehearse(session)
    files = {"models": Models(folder.path).folder}
    files["models"].mkdir(exist_ok=True)
    with nullcontext() if entrance is None else _listening_at(entrance):
        server = build_server(
            lambda: session().view(), port, address, origins, limits, basic_auth, files=files,
            contents=partial(_listed, folder), show=open_browser,
        )  # fmt: skip
    # Return the memory of a session some time after its end. Do not collect here: that would block other visitors.
    pn.state.on_session_destroyed(lambda context: server.io_loop.call_later(limits.tab_seconds, give_back))
    server.start()
    server.io_loop.start()


def build_server(
    view: Callable[[], Any], port: int, address: str, origins: Origins, limits: Limits, basic_auth: str | None = None,
    *, files: Mapping[str, Path] | None = None, contents: Callable[[], object] | None = None, **more: Any,
) -> Server:  # fmt: skip
    """Build the server of a page, with all access checks, without starting it.

    Args:
        files: Folders whose files visitors may download, by the name in their address. A login protects them too.
        contents: What the pages list, if a session is to be ready for the first visitor.
    """
    if basic_auth:
        more |= {"basic_auth": basic_auth, "cookie_secret": secrets.token_hex()}
    # Free the resources of sleeping machines and of incomplete requests soon. Open tabs answer pings at once.
    silent = SILENT_TIMES * limits.tab_seconds
    http = {"idle_connection_timeout": silent, "max_body_size": REQUEST_BYTES}
    bound_messages()
    script = (r"/plotly/(plotly\.min\.js)", ScriptHandler, {"path": str(plotly_folder())})
    server = pn.serve(
        {"/": view}, port=port, address=address, start=False, title="apviz", autoreload=False, admin=False,
        static_dirs={name: str(folder) for name, folder in (files or {}).items()}, extra_patterns=[script],
        check_unused_sessions_milliseconds=1000 * limits.tab_seconds,
        unused_session_lifetime_milliseconds=1000 * limits.tab_seconds,
        websocket_max_message_size=MESSAGE_BYTES, keep_alive_milliseconds=round(1000 * ALIVE_SECONDS),
        websocket_ping_interval=silent, websocket_ping_timeout=silent, http_server_kwargs=http, sign_sessions=True,
        secret_key=secrets.token_hex(), **more,
    )  # fmt: skip
    # `origins` replaces Bokeh's list of origins, which supports one port only and ignores the Host header.
    server._tornado._websocket_origins = {"*"}
    origins.guard(server._tornado)
    use_handler(server._tornado, contents)
    if basic_auth:
        server._tornado.add_handlers(".*", [("/login", Login, {"given": basic_auth, "tries": Tries()})])
    return server


def _listed(runs: RunsFolder) -> object:
    """Return what the pages of a new session list: runs, tables of visitors and other data sets."""
    here = [name for name in datasets.registry if datasets.is_here(name)]
    return runs.entries(), OwnData(runs.path / ".data").names(), here


@contextmanager
def _listening_at(entrance: Entrance) -> Iterator[None]:
    """Let a server of Bokeh listen at the entrance's socket. Binding another one would refuse visitors in between."""
    usual = bokeh_server.bind_sockets

    def bind(address: str | None, port: int) -> tuple[list[socket.socket], int]:
        sockets = [entrance.hand_over()]
        if address in (None, "", "localhost"):  # names of more than one interface
            with suppress(OSError):
                sockets += netutil.bind_sockets(port, address or None, socket.AF_INET6)
        return sockets, port

    bokeh_server.bind_sockets = bind
    try:
        yield
    finally:
        bokeh_server.bind_sockets = usual


def _is_of_open_tab(record: logging.LogRecord) -> bool:
    """Return whether a log record concerns anything other than sending to a closed tab."""
    error = record.exc_info[1] if record.exc_info else None
    of_closed = isinstance(error, WebSocketClosedError) or (
        # The session of this connection was discarded because its tab no longer answered.
        isinstance(error, AssertionError) and _raised_in(error) == "bokeh.server.connection"
    )
    return not of_closed and "connection was closed" not in record.getMessage()


def _shortened(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, DeserializationError):
        # no fault of the server; a traceback for each message of an attack would hold up all visitors
        record.msg, record.args, record.exc_info = f"message rejected: {error}", (), None
    said = record.getMessage()
    if len(said) > LINE_CHARACTERS:
        record.msg, record.args = f"{said[:LINE_CHARACTERS]} …", ()
    return True


def _raised_in(error: BaseException) -> str:
    """Return the name of the module that raised an error."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__"))
