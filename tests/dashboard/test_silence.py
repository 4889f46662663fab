"""Silent visitors do not hold resources of the server for long, and active ones are kept."""

from __future__ import annotations

import asyncio
import queue
import secrets
import subprocess
import sys
import threading
import time

import psutil
import pytest

pytest.importorskip("panel")

from tests.dashboard.browser.server import PATIENCE, Server
from tests.ports import free_port, opens, wait_until
from tests.trust.tabs import Tab


def sockets(server):
    return sum(each.status != psutil.CONN_LISTEN for each in psutil.Process(server.process.pid).net_connections("tcp"))


async def some_fall_silent(server):
    awake, asleep = (Tab(server.url, secrets.token_hex(16)) for _ in range(2))
    for tab in (awake, asleep):
        await tab.open({"n": 200, "methods": "cg", "max_epochs": 5, "source": "by hand", "noise": 0.1})
    _, half = await asyncio.open_connection("127.0.0.1", server.port)
    half.write(b"GET / HTTP/1.1\r\nHost: ")
    await asleep.freeze()
    await half.drain()
    await asyncio.sleep(0.5)
    assert sockets(server) >= 3
    until = time.monotonic() + PATIENCE
    while sockets(server) > 1 and time.monotonic() < until:
        await asyncio.sleep(0.2)
    assert sockets(server) == 1, "of a machine that sleeps, or of half a request, something is left"
    # many times the limit for silent visitors
    await asyncio.sleep(5)
    await awake.press("Run")
    await awake.says("Done:")
    await awake.close()
    half.close()


@pytest.mark.slow
def test_sleeping_machines_and_unfinished_requests_are_dropped_and_active_tabs_are_not(tmp_path):
    server = Server(tmp_path / "runs", "--tab-seconds", "1")
    try:
        asyncio.run(some_fall_silent(server))
    finally:
        server.kill()


#: serves a folder, and reports when it returns memory
TELLING = """
import sys
from pathlib import Path
from apviz.dashboard import Limits, server

gives = server.give_back

def told():
    gives()
    print("given back", flush=True)

server.give_back = told
server.serve(Path(sys.argv[1]), port=int(sys.argv[2]), limits=Limits(tab_seconds=1), open_browser=False)
"""


async def one_leaves(url, said):
    stays, leaves = (Tab(url, secrets.token_hex(16)) for _ in range(2))
    for tab in (stays, leaves):
        await tab.open({"n": 200, "source": "by hand"})
    await asyncio.sleep(2)
    assert said.empty(), "nobody has gone"
    await leaves.close()
    await asyncio.to_thread(said.get, timeout=PATIENCE)
    await stays.close()


def test_free_memory_is_returned_after_a_visitor_leaves_even_if_others_stay(tmp_path):
    port, said = free_port(), queue.Queue()
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, str(tmp_path), str(port)], stdout=subprocess.PIPE, text=True
    )

    def read():
        for line in process.stdout:
            if line == "given back\n":
                said.put(line)

    threading.Thread(target=read, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_until(lambda: opens(url + "plotly/plotly.min.js"), process, lambda: "it did not start", PATIENCE)
        asyncio.run(one_leaves(url, said))
    finally:
        process.kill()
        process.wait()
