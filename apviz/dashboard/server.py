"""The server of the dashboard: who may come, and what it is started with."""

from __future__ import annotations

import atexit
import gc
import ipaddress
import secrets
from pathlib import Path
from typing import Any

import panel as pn

from apviz import datasets
from apviz.dashboard.components.chart_card import plotly_folder
from apviz.dashboard.first_runs import first_runs
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.session import Session
from apviz.dashboard.store.runs_folder import RunsFolder

#: seconds that a session outlives its closed tab
SESSION_SECONDS = 15
#: bytes of a message from the browser; uploads come in smaller pieces
MESSAGE_BYTES = 64 * 2**20


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
) -> None:
    """Serves the dashboard until Ctrl-C.

    Args:
        runs: folder of traces: shown, and where new ones go.
        address: the interface to listen on; any but this machine's own asks for a decision about who may come.
        basic_auth: a password, or a JSON file of users and passwords.
        no_auth: let everybody in who can reach the address.

    Raises:
        ValueError: an address that others can reach without a word about who may; an empty password, or one that looks
            like a file that is not there; IPv6's own; an unknown data set.
        DatasetUnavailable: a data set that is not on this machine; with how to get it.
    """
    local = _is_local(address)
    if basic_auth is not None:
        _check_password(basic_auth)
    if not local and not (basic_auth or no_auth):
        raise ValueError(
            f"{address} can be reached by others: choose a password with --basic-auth PASSWORD (or a JSON file of "
            "users), or let everybody in with --no-auth"
        )
    if local and ":" in address:
        # Bokeh's list of hosts takes no IPv6
        raise ValueError(f"{address} cannot be served to this machine alone; take 127.0.0.1, which can")
    if dataset is not None:
        datasets.require_here(dataset)
    limits = limits or Limits()
    folder, queue = RunsFolder(runs), JobQueue(limits.max_solves)
    first_runs(folder)
    pn.extension("filedropper", notifications=True)
    options: dict[str, Any] = {"basic_auth": basic_auth, "cookie_secret": secrets.token_hex()} if basic_auth else {}
    atexit.register(queue.close)
    # what every visitor needs stays: nothing of it is looked through again when a job's garbage is collected
    gc.collect()
    gc.freeze()
    pn.serve(
        {"/": lambda: Session(limits, queue, folder, dataset=dataset, lecture=lecture).view()},
        port=port, address=address, show=open_browser, title="apviz", autoreload=False, admin=False,
        websocket_origin=_origins(local, address, port), static_dirs={"plotly": str(plotly_folder())},
        check_unused_sessions=1000 * SESSION_SECONDS, unused_session_lifetime=1000 * SESSION_SECONDS,
        websocket_max_message_size=MESSAGE_BYTES, **options,
    )  # fmt: skip


def _check_password(given: str) -> None:
    """Refuses what would let everybody in, or make a password of a mistyped name of a file.

    Raises:
        ValueError: what is wrong with it.
    """
    if not given.strip():
        raise ValueError("--basic-auth is empty, which would ask nobody for a password; give one, or --no-auth")
    named_like_a_file = given.lower().endswith(".json") or "/" in given or "\\" in given
    if named_like_a_file and not Path(given).is_file():
        raise ValueError(
            f"--basic-auth: there is no file {given}, and as a password it would be one by mistake; give the path of a "
            "JSON file of users and passwords, or a password without / and \\ that does not end in .json"
        )


def _is_local(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _origins(local: bool, address: str, port: int) -> list[str]:
    """Pages of which hosts may talk to the server."""
    return [f"{name}:{port}" for name in {"127.0.0.1", "localhost", address}] if local else ["*"]
