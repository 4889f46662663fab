"""A page shows by itself when its server starts, is slow, is killed or runs again."""

from __future__ import annotations

import shutil
import signal
import time
import urllib.error
import urllib.request

import pytest

import apviz
from tests.dashboard.browser.server import ENDLESS, PATIENCE, SHOWN, Server
from tests.ports import wait_until

#: the spinner, in JavaScript
BUSY = "document.documentElement.classList.contains('apviz-busy')"


def on_tab(visitor, title: str) -> None:
    visitor.tab.get_by_role("tab", name=title, exact=True).click()


@pytest.mark.slow
def test_a_page_opened_during_the_start_becomes_the_dashboard(recorded, visit, tmp_path):
    server = Server(shutil.copytree(recorded, tmp_path / "runs"), wait=False)
    try:
        wait_until(lambda: answers(server.url) == 503, server.process, lambda: "nobody answers", PATIENCE)
        someone = visit(to=server)
        # the browser reports the answer "not ready yet" as an error
        someone.server_may_go = True
        assert someone.tab.goto(server.url).status == 503
        someone.says("The dashboard is starting")
        someone.chart("Residual.")
        assert someone.tab.title() == "apviz"
    finally:
        server.kill()


def answers(url: str) -> int:
    """Return the status of an answer; 0 if there is none."""
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.slow
def test_a_page_reconnects_after_a_kill_and_the_run_is_listed_as_interrupted(recorded, visit, tmp_path):
    server = Server(shutil.copytree(recorded, tmp_path / "runs"))
    before = {path.name for path in server.runs.iterdir()}
    try:
        someone = visit(to=server).go(**ENDLESS)
        someone.press("Run")
        someone.says("Running: Alternating projection (cyclic, b = 60): epoch")
        (new,) = {path for path in server.runs.iterdir() if path.name not in before}
        someone.tab.wait_for_timeout(2_000)  # until the run is announced
        while apviz.open_trace(new)["epoch"].sizes["epoch"] < 3:
            someone.tab.wait_for_timeout(100)
        someone.server_may_go = True
        server.kill()
        someone.says("No connection to the server since")

        server.start()
        someone.says("The server was started again meanwhile. What ran was interrupted: A comparison on page Compare.")
        someone.says(f"As far as it was recorded it is in the folder: {new.stem}")
        assert not someone.tab.get_by_text("Running: ").count()
        # its settings are unchanged
        assert someone.tab.get_by_role("button", name="Run", exact=True).is_enabled()
        assert "max_epochs=100000" in someone.tab.url
        someone.chart("Residual.")
        other = visit(to=server).go(runs=new.stem)
        assert "interrupted" in other.chart("Residual.").get_attribute("aria-label")
        trace = apviz.open_trace(new)
        assert trace.outcome == "interrupted" and not trace.converged
        other.server_may_go = True
    finally:
        server.kill()


@pytest.mark.slow
def test_a_running_job_is_shown_in_all_tabs_of_its_visitor_and_to_no_other(visit):
    someone, other = visit().go(**ENDLESS), visit().go(page="runs")
    someone.press("Run")
    someone.says("Running: Alternating projection (cyclic, b = 60): epoch")
    on_tab(someone, "Runs")
    line = "A comparison on page Compare, running: Alternating projection (cyclic, b = 60)"
    someone.says(line)

    someone.tab.reload()
    someone.says(line)
    someone.press("Show")
    someone.says("Running: Alternating projection (cyclic, b = 60): epoch")
    chart = someone.chart("Residual")
    someone.until(
        "chart.data?.some(each => (each.name || '').startsWith('Alternating projection (cyclic, b = 60)'))",
        chart,
    )

    second = someone.context.new_page()
    second.goto(someone.server.address({"page": "block-size"}))
    second.get_by_text(line).locator(SHOWN).first.wait_for(timeout=1000 * PATIENCE)
    second.get_by_role("button", name="Stop", exact=True).first.click()
    someone.says("Stopped: 1 run recorded")
    second.close()
    assert not other.tab.get_by_text("A comparison on page Compare").count()


@pytest.mark.slow
def test_slow_parts_show_a_spinner_until_they_are_ready(visit, server):
    someone = visit().go()
    someone.chart("Residual.")
    someone.tab.wait_for_function(f"() => !{BUSY}")
    server.process.send_signal(signal.SIGSTOP)
    try:
        on_tab(someone, "Noise")
        someone.tab.wait_for_function(f"() => {BUSY}")
    finally:
        server.process.send_signal(signal.SIGCONT)
    someone.tab.get_by_text("Try noise levels").locator(SHOWN).first.wait_for()
    someone.tab.wait_for_function(f"() => !{BUSY}")


@pytest.mark.slow
def test_a_page_shown_again_fits_the_window_and_has_the_current_theme(visit):
    someone = visit().go()
    chart = someone.chart("Residual.")
    wide, ink = chart.evaluate("chart => chart.clientWidth"), "chart => chart._fullLayout.font.color"
    light = chart.evaluate(ink)
    on_tab(someone, "Runs")
    chart.wait_for(state="hidden")
    someone.tab.set_viewport_size({"width": 1000, "height": 800})
    someone.tab.get_by_role("button", name="Toggle theme").click()
    someone.tab.get_by_text("Filter").locator(SHOWN).first.wait_for()
    on_tab(someone, "Compare")
    someone.until("chart.clientWidth && chart.clientWidth === chart._fullLayout.width", chart)
    someone.until(f"chart._fullLayout.font.color !== '{light}'", chart)
    assert chart.evaluate("chart => chart.clientWidth") != wide


@pytest.mark.slow
def test_tabs_closed_during_a_run_leave_no_traceback(recorded, browser, tmp_path):
    server = Server(shutil.copytree(recorded, tmp_path / "runs"), log=tmp_path / "log")
    try:
        context = browser.new_context()
        first = context.new_page()
        first.goto(server.address(ENDLESS))
        first.get_by_role("button", name="Run", exact=True).click()
        first.get_by_text("Running: Alternating projection (cyclic, b = 60): epoch").locator(SHOWN).first.wait_for()
        first.reload()
        first.get_by_text("Running: Alternating projection (cyclic, b = 60): epoch").locator(SHOWN).first.wait_for()
        first.close()
        context.close()
        time.sleep(3)
    finally:
        server.process.terminate()
        server.process.wait(60)
    log = (tmp_path / "log").read_text("utf-8")
    assert "Traceback" not in log and "WebSocketClosedError" not in log
