"""The server of the dashboard.

What a new folder of runs begins with: seconds of work, once, so that no page opens with an empty chart.
"""

from __future__ import annotations

import atexit
import gc
import ipaddress
import secrets
from pathlib import Path
from typing import Any

import panel as pn

from apviz import datasets
from apviz.comparison import build_system, choose_hyperparameters, choose_solvers, compare
from apviz.dashboard.components.chart_card import plotly_folder
from apviz.dashboard.jobs.job import Gate
from apviz.dashboard.limits import Limits
from apviz.dashboard.session import Session
from apviz.dashboard.settings.methods import NoiseSweep
from apviz.dashboard.settings.systems import FIRST_N, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.gp.training import Training, TrainingSettings
from apviz.solvers import AlternatingProjection

#: data of the first runs: it comes with apviz
DATA = "china"
#: rows of the training and of the sweep, and of their blocks
SMALL_N, SMALL_BLOCK = 300, 100
#: updates of the comparison with a picture
PICTURES = 60


def first_runs(folder: RunsFolder) -> None:
    """For a folder without any run: a training, a sweep over the noise, and a comparison, which is the newest."""
    if folder.names():
        return
    train(folder.path)
    sweep_noise(folder.path)
    compare_methods(folder.path)


def train(place: Path) -> None:
    """About two seconds: until σ² has settled."""
    data = datasets.load(DATA, n=SMALL_N)
    solver = AlternatingProjection(block_size=SMALL_BLOCK, tol=1.0, min_epochs=11)
    settings = TrainingSettings(solver=solver, steps=80, probes=4, spectrum=True)
    path = place / f"{DATA}-n{SMALL_N} training {solver.label}.zarr"
    Training(data.train_x, data.train_y, settings, path=path, dataset=DATA).run()


def sweep_noise(place: Path) -> None:
    """About two seconds: the two methods of the paper's Figure 4 at five noises."""
    spec = SystemSpec(DATA, SMALL_N, rhs=2)
    chosen = spec.build(Limits())
    solvers = choose_solvers(["ap", "cg"], rules=["gauss-southwell"], block_sizes=[SMALL_BLOCK], max_epochs=200)
    for factor in NoiseSweep().factors():
        loaded = spec.at_noise(chosen, factor)
        for _ in compare(loaded.system, solvers, place, data=loaded.data, mean=loaded.hyperparameters.mean):
            pass


def compare_methods(place: Path) -> None:
    """About five seconds: what the landing page shows, and Look inside."""
    data = datasets.load(DATA, n=FIRST_N)
    chosen = choose_hyperparameters(data)
    solvers = choose_solvers(["ap", "overlap", "cg", "pcg"], block_sizes=[100, 400])
    for _ in compare(build_system(data, chosen, rhs=4), solvers, place, data=data, mean=chosen.mean, pictures=PICTURES):
        pass


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
    folder, gate = RunsFolder(runs), Gate(limits.max_solves)
    first_runs(folder)
    pn.extension("filedropper", notifications=True)
    options: dict[str, Any] = {"basic_auth": basic_auth, "cookie_secret": secrets.token_hex()} if basic_auth else {}
    atexit.register(gate.close)
    # what every visitor needs stays: nothing of it is looked through again when a job's garbage is collected
    gc.collect()
    gc.freeze()
    pn.serve(
        {"/": lambda: Session(limits, gate, folder, dataset=dataset, lecture=lecture).view()},
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
