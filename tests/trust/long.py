"""Test for leaks: twenty visitors at once of one dashboard, round after round, all of whom leave.

A case is a round: its seed determines the actions of every visitor, and how each leaves. All rounds use one server,
which `apviz dashboard` starts with the first; its limits determine when pages, connections and jobs must have ended.
Then its threads, files, sockets, child processes and temporary folders are compared with the largest numbers of the
first rounds, and its memory is monitored.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import secrets
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil

from tests.dashboard.browser.server import ENDLESS, Server
from tests.trust.tabs import Tab
from tests.trust.verdicts import Verdict

VISITORS = 20
#: limits of the server, in seconds; the defaults are 15 and 600
TAB_SECONDS, JOB_SECONDS = 4, 15
#: number of rounds in which a server may allocate pools, caches and late imports
WARM = 4
#: largest growth of memory after these rounds, in MB
MOST_MB = 100.0
#: seconds within which the visitors of a round arrive; seconds for which a job without a viewer keeps running
COMING, STAYING = 10.0, 3.0
#: seconds that a busy machine may need to free resources after the limits
PATIENCE = 60.0
DOES = (
    "compares", "compares", "races", "trains", "brings a table", "asks for advice", "turns the pages", "only asks",
    "solves without an end", "says nothing",
)  # fmt: skip
LEAVES = ("closes", "loses its connection", "falls asleep", "comes back")
SMALL = {"n": 200, "methods": "ap,cg", "block_sizes": 50, "max_epochs": 20, "source": "by hand", "noise": 0.1}
PAGES = 6


@dataclass(frozen=True)
class Visit:
    """The actions of a visitor, its way of leaving, and the seconds until its arrival."""

    does: str
    leaves: str
    comes: float
    seed: int


@dataclass(frozen=True)
class Left:
    """The resources of a server without visitors: counts, and MB of resident memory, including children."""

    threads: int
    files: int
    sockets: int
    children: int
    folders: int
    mb: float


@dataclass
class Course:
    """The remaining resources after every round."""

    rounds: list[Left] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Return the growth of memory in MB since the first rounds, by the median of slopes."""
        mb = [each.mb for each in self.rounds[WARM:]]
        slopes = [(mb[b] - mb[a]) / (b - a) for a in range(len(mb)) for b in range(a + 1, len(mb))]
        return statistics.median(slopes) * (len(mb) - 1) if slopes else 0.0

    def fault(self) -> str:
        """Return the resources that the last round left in addition to the first; empty if there are none."""
        if len(self.rounds) <= WARM:
            return ""
        last, faults = asdict(self.rounds[-1]), []
        for name in ("threads", "files", "sockets", "children", "folders"):
            most = max(getattr(each, name) for each in self.rounds[:WARM])
            if last[name] > most:
                faults.append(f"{last[name]} {name}, {most} at most after the first {WARM} rounds")
        if len(self.rounds) >= 2 * WARM and self.growth > MOST_MB:
            faults.append(f"{self.growth:.0f} MB more in {len(self.rounds) - WARM} rounds")
        return "; ".join(faults)


def case(seed: int) -> list[Visit]:
    """Return the visitors of a seed."""
    rng = np.random.default_rng(seed)
    # the most error-prone visits are in every round
    firsts = list(rng.permutation(DOES))
    does = [firsts[k] if k < len(firsts) else DOES[rng.integers(len(DOES))] for k in range(VISITORS)]
    return [
        Visit(str(each), LEAVES[rng.integers(len(LEAVES))], float(rng.uniform(0, COMING)), int(rng.integers(2**31)))
        for each in does
    ]


# --- visitors ---------------------------------------------------------------------------------------------------------


async def _visits(url: str, visit: Visit) -> Tab | asyncio.StreamWriter | None:
    """Perform one visit; return the connection of a visitor that fell asleep."""
    await asyncio.sleep(visit.comes)
    if visit.does == "says nothing":
        # half a request on an open connection
        host, port = url.removeprefix("http://").strip("/").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        return writer
    tab = Tab(url, secrets.token_hex(16))
    if visit.does == "only asks":
        await tab.get({})
        return None
    try:
        await tab.open(_address(visit))
        await _does(tab, visit)
    except BaseException:  # its own resources must not count as those of the server
        await tab.lose()
        raise
    if visit.leaves == "comes back":
        await tab.lose()
        await asyncio.sleep(TAB_SECONDS + 2)  # its page is gone, and its job still runs
        again = Tab(url, tab.visitor)
        await again.open(_address(visit))
        if visit.does == "solves without an end":
            await again.press("Stop")
            await again.says("Stopped:")
        await again.close()
    elif visit.leaves == "loses its connection":
        await tab.lose()
    elif visit.leaves == "falls asleep":
        await tab.freeze()
        return tab
    else:
        await tab.close()
    return None


def _address(visit: Visit) -> dict[str, Any]:
    if visit.does == "trains":
        return {"page": "training", "n": 200}
    if visit.does == "solves without an end":
        return {**ENDLESS, "n": 300}
    return {**SMALL, "seed": visit.seed % 5} | ({"order": "race on work"} if visit.does == "races" else {})


async def _does(tab: Tab, visit: Visit) -> None:
    if visit.does in ("compares", "races"):
        await tab.press("Run")
        await tab.says("Done:")
    elif visit.does == "trains":
        await tab.press("Start a training")
        await tab.says("Running:|Queued:|Done:")
        await asyncio.sleep(STAYING)
    elif visit.does == "solves without an end":
        await tab.press("Run")
        await tab.says("Running:|Queued:")
        await asyncio.sleep(STAYING)
    elif visit.does == "asks for advice":
        await tab.press("Which method?")
        await asyncio.sleep(STAYING)
    elif visit.does == "brings a table":
        rng = np.random.default_rng(visit.seed)
        # large enough to be noticed if it were kept
        rows = "\n".join(",".join(f"{value:.6f}" for value in row) for row in rng.standard_normal((20_000, 5)))
        await tab.drop(f"table{visit.seed % 3}.csv", f"a,b,c,d,e\n{rows}\n".encode())
        await tab.says("to train on")
        if visit.seed % 2:
            await tab.press("Use this table")
            await tab.says("Your table")
    else:
        for page in range(1, PAGES):
            await tab.go_to(page)
            await asyncio.sleep(0.5)


async def _fills_the_pool_of_readers(url: str) -> None:
    """Read tables at the same time, so that the second reader thread exists before the first round."""
    tabs = [Tab(url, secrets.token_hex(16)) for _ in range(3)]
    try:
        for tab in tabs:
            await tab.open(SMALL)
        await asyncio.gather(*(_does(tab, Visit("brings a table", "closes", 0.0, 2 * k)) for k, tab in enumerate(tabs)))
    finally:
        for tab in tabs:
            await tab.close()


async def _round(url: str, visits: list[Visit], gone: Any) -> Any:
    """Let all visitors come and leave, and call `gone` while sleeping ones still hold their connections."""
    found = await asyncio.gather(*(_visits(url, each) for each in visits), return_exceptions=True)
    problems = [f"{visit.does}: {type(each).__name__} {each}" for visit, each in zip(visits, found, strict=True)
                if isinstance(each, BaseException)]  # fmt: skip
    try:
        return await asyncio.to_thread(gone), problems
    finally:
        for each in found:
            if isinstance(each, Tab):
                await each.lose()
            elif isinstance(each, asyncio.StreamWriter):
                each.close()


# --- the server -------------------------------------------------------------------------------------------------------


class Dashboard:
    """A server with its own folders of runs and temporary files, and its resources after every round."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="apviz-trust-")
        root = Path(self.folder.name)
        self.temporary, self.course, self.began = root / "tmp", Course(), time.monotonic()
        self.visitors: Counter[str] = Counter()
        self.temporary.mkdir()
        # every pool thread that runs a torch operation keeps OpenMP helpers; one thread has none
        with mock.patch.dict(os.environ, TMPDIR=str(self.temporary), OMP_NUM_THREADS="1"):
            self.server = Server(root / "runs", "--tab-seconds", str(TAB_SECONDS), "--job-seconds", str(JOB_SECONDS),
                                 log=root / "log")  # fmt: skip
        self.log = root / "log"
        atexit.register(self.close)

    def close(self) -> None:
        """Stop the server."""
        if self.server.process.poll() is None:
            self.server.kill()
        self.folder.cleanup()

    def left(self) -> Left:
        """Return the server's current resources."""
        process = psutil.Process(self.server.process.pid)
        below = process.children(recursive=True)
        return Left(
            threads=process.num_threads(), files=process.num_fds(),
            sockets=sum(each.status != psutil.CONN_LISTEN for each in process.net_connections()), children=len(below),
            folders=len(list(self.temporary.iterdir())),
            mb=sum(each.memory_info().rss for each in (process, *below)) / 1e6,
        )  # fmt: skip

    def when_gone(self) -> Left:
        """Return the server's resources once its limits have passed and they no longer shrink."""
        time.sleep(JOB_SECONDS + 6 * TAB_SECONDS)
        until, quiet = time.monotonic() + PATIENCE, self.left()
        while time.monotonic() < until and (quiet.sockets or quiet.folders or self._is_busy()):
            time.sleep(1)
            quiet = self.left()
        return quiet

    def _is_busy(self) -> bool:
        return psutil.Process(self.server.process.pid).cpu_percent(1.0) > 20


@functools.cache
def dashboard() -> Dashboard:
    """Return the server of this process."""
    return Dashboard()


def judge(seed: int) -> Verdict:
    """Let the visitors of a seed come and leave, and count the remaining resources."""
    served, visits = dashboard(), case(seed)
    if not served.course.rounds:
        try:
            asyncio.run(_fills_the_pool_of_readers(served.server.url))
        except Exception as error:
            return Verdict("error", f"{type(error).__name__}: {error}")
    left, problems = asyncio.run(_round(served.server.url, visits, served.when_gone))
    served.course.rounds.append(left)
    served.visitors.update(each.does for each in visits)
    if problems:
        return Verdict("false", f"{'; '.join(problems)[:2000]}; {served.log.read_text()[-2000:]}")
    if fault := served.course.fault():
        return Verdict("false", fault)
    return Verdict("nothing left" if len(served.course.rounds) > WARM else "of the first rounds")


def measured() -> dict[str, Any]:
    """Return the measurements of the server of this process."""
    served = dashboard()
    rounds = served.course.rounds
    if not rounds:
        return {}
    minutes = (time.monotonic() - served.began) / 60
    return {
        "minutes": round(minutes, 1), "rounds": len(rounds), "visitors": served.visitors.total(),
        "after the first rounds": asdict(rounds[min(WARM, len(rounds) - 1)]), "at the end": asdict(rounds[-1]),
        "growth in MB": round(served.course.growth, 1),
    }  # fmt: skip


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    return {f"{place}": f"{each.does}, {each.leaves}" for place, each in enumerate(case(seed))}
