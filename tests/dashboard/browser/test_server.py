"""The server and its first page: who may connect, and what they see before anything is solved."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlencode

import pytest
from bokeh.util.token import generate_jwt_token, generate_session_id
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import apviz
from tests.dashboard.browser.server import COST, PATIENCE, SHOWN, TOO_NARROW, Server


def test_an_address_that_others_can_reach_requires_a_login_choice(tmp_path):
    command = [sys.executable, "-m", "apviz", "dashboard", "--no-show", "--address", "0.0.0.0"]
    done = subprocess.run([*command, "--runs", str(tmp_path / "runs")], capture_output=True, text=True, timeout=120)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "0.0.0.0 can be reached by others" in said and "--basic-auth" in said and "--no-auth" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_requests_by_names_of_this_machine_are_answered(server, host):
    request = urllib.request.Request(server.url, headers={"Host": f"{host}:{server.port}"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200 and b'"token":' in answer.read()


@pytest.mark.parametrize("path", ["", "ws", "plotly/plotly.min.js", "robots.txt?x=1"])
@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1.evil.example", "localhost.:{port}"])
def test_requests_by_a_foreign_name_of_this_machine_are_rejected(server, path, host):
    name = host.format(port=server.port)
    headers = {"Host": name, "Origin": f"http://{name}"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(server.url + path, headers=headers))
    assert refused.value.code == 403
    said = refused.value.read().decode()
    assert f"does not answer to the name {name}" in said and "--allow-origin" in said and '"token"' not in said


async def connects(server: Server, token: str, **headers: str) -> str:
    """Return the first message of the server, or the reason for a rejection."""
    request = HTTPRequest(f"ws://127.0.0.1:{server.port}/ws", headers=headers)
    try:
        line = await websocket_connect(request, subprotocols=["bokeh", token])
    except HTTPClientError as error:
        return str(error.code)
    begins = await asyncio.wait_for(line.read_message(), PATIENCE)
    line.close()
    return "closed" if begins is None else json.loads(begins)["msgtype"]


def test_only_own_pages_with_a_token_of_the_server_get_a_websocket(server):
    with urllib.request.urlopen(server.url) as answer:
        (token,) = re.findall(r'"token":\s*"([^"]+)"', answer.read().decode())
    own = {"Origin": server.url.rstrip("/")}
    assert asyncio.run(connects(server, token, **own)) == "ACK"
    assert asyncio.run(connects(server, token, Origin="http://evil.example")) == "403"
    assert asyncio.run(connects(server, token, Host="evil.example", Origin="http://evil.example")) == "403"
    assert asyncio.run(connects(server, token)) == "403"
    # a message from a stranger could unpack to any size
    of_stranger = generate_jwt_token(generate_session_id(), extra_payload={"x": "y" * 10**6})
    assert asyncio.run(connects(server, of_stranger, **own)) == "closed"


def tries(server: Server, password: str, timeout: float = 60) -> int:
    """Return the status of the answer to a password."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(server.url + "login", timeout=timeout) as answer:
        (token,) = re.findall(r'name="_xsrf" value="([^"]+)"', answer.read().decode())
    data = urlencode({"username": "anybody", "password": password, "_xsrf": token}).encode()
    try:
        with opener.open(server.url + "login", data, timeout=timeout) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_a_password_is_required_and_gives_access(recorded, browser, tmp_path):
    runs = shutil.copytree(recorded, tmp_path / "runs")
    server = Server(runs, "--address", "127.0.0.1", "--basic-auth", "open sesame")
    try:
        with urllib.request.urlopen(server.url) as answer:
            assert answer.url.endswith("/login?next=%2F") and b"Data set" not in answer.read()
        tab = browser.new_page()
        tab.goto(server.url)
        tab.locator("input[name=password]").fill("wrong")
        tab.locator("[type=submit]").click()
        tab.get_by_text("Wrong password").first.wait_for()
        # like an attacker; from the sixth attempt on, answers are delayed
        for _ in range(5):
            assert tries(server, "guess") == 403
        with pytest.raises(TimeoutError):
            for _ in range(5):
                tries(server, "guess", timeout=1.5)
        tab.locator("input[name=password]").fill("open sesame")
        tab.locator("[type=submit]").click()
        tab.wait_for_selector("[role=figure] .main-svg", timeout=60_000)
        tab.close()
    finally:
        server.kill()


# --- the first page ---------------------------------------------------------------------------------------------------

CURVES = ("Residual.", "Test error", "Error in the K-norm")
WITH_MOMENTS = (*CURVES, "Which block", "Residual on each block")
METHODS = [solver.method for solver in (apviz.AlternatingProjection(rule="cyclic"), apviz.ConjugateGradient())]


def test_the_first_page_shows_a_finished_comparison_without_external_links(visit):
    someone = visit().go()
    names = someone.chart("Residual.").evaluate("chart => chart.data.map(each => each.name).join()")
    assert "Alternating projection (greedy, b = 50)" in names and "CG + pivoted Cholesky" in names
    assert someone.tab.locator("[role=figure]:has(.main-svg)").locator(SHOWN).count() == 1
    # the best run, which is selected first, may have no blocks
    rows = someone.tab.get_by_role("table", name="Runs, the best first").get_by_role("row")
    rows.filter(has_text="greedy, b = 50").get_by_text("Converged").click()
    someone.press("Diagnosis and more charts")
    for heading in (*WITH_MOMENTS, "κ and κ′"):
        someone.chart(heading)
    someone.says("Diagnosis of")
    someone.tab.get_by_role("table", name="Runs, the best first").get_by_role("row").nth(3).wait_for()
    titles = someone.tab.locator(".modebar-btn").evaluate_all("buttons => buttons.map(each => each.dataset.title)")
    assert "Download plot as a PNG" in titles and not [title for title in titles if "hare" in title or "loud" in title]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_verdict_and_the_first_chart_are_there_before_the_controls(visit, server, width):
    early = visit(width, 900)
    early.server_may_go = True  # the browser reports the scripts that it does not get
    early.tab.route(re.compile(r"bokeh|panel"), lambda route: route.abort())
    early.tab.goto(server.address({}))
    assert early.tab.get_by_text(COST).first.is_visible() and early.tab.get_by_role("toolbar").count() == 0
    colors = "chart => chart._fullData.filter(each => each.mode.includes('lines')).map(each => each.line.color)"
    chart = early.tab.locator("#apviz-chart:has(.main-svg)")
    chart.wait_for()
    assert {apviz.plots.method_color(method) for method in METHODS} <= set(chart.evaluate(colors))
    assert early.tab.evaluate(TOO_NARROW) == []
