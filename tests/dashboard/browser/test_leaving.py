"""Resources that remain on the server after visitors leave."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.dashboard.browser.server import PATIENCE
from tests.ports import free_port, opens, wait_until

#: serves a folder, ends sessions one second after their tab, and reports the number of live sessions on request
COUNTING = """
import gc, sys, threading, weakref
from pathlib import Path
from apviz.dashboard import Limits, server
from apviz.dashboard.session import Session

alive, begin = weakref.WeakSet(), Session.__init__

def init(self, *args, **settings):
    alive.add(self)
    begin(self, *args, **settings)

def answer():
    for line in sys.stdin:
        gc.collect()
        print(len(alive), flush=True)

Session.__init__ = init
threading.Thread(target=answer, daemon=True).start()
server.serve(Path(sys.argv[1]), port=int(sys.argv[2]), limits=Limits(tab_seconds=1), open_browser=False)
"""


@pytest.mark.slow
def test_nothing_of_departed_visitors_is_kept(browser, recorded):
    port = free_port()
    command = [sys.executable, "-c", COUNTING, str(recorded), str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def count() -> int:
        process.stdin.write("?\n")
        process.stdin.flush()
        return int(next(line for line in process.stdout if line.strip().isdigit()))

    try:
        url = f"http://127.0.0.1:{port}/"
        wait_until(lambda: opens(url + "plotly/plotly.min.js"), process, lambda: "it did not start", PATIENCE)
        for _ in range(6):
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(url)
            tab.wait_for_function("() => !document.getElementById('apviz-first')", timeout=1000 * PATIENCE)
            assert count() >= 1
            context.close()
        # clocks of Panel started in two of the pages and keep these two, for any number of visitors
        wait_until(lambda: count() <= 2, process, lambda: f"{count()} of 6 are kept", PATIENCE)
    finally:
        process.kill()
