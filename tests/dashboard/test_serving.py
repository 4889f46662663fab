"""Addresses of the server, and checks before it listens."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

pytest.importorskip("panel")

import panel as pn
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect
from typer.testing import CliRunner

from apviz.cli import app
from apviz.dashboard import serve, server
from apviz.dashboard.limits import Limits
from apviz.dashboard.origins import Origins
from tests.ports import free_port


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    """Hide all data except those included in apviz."""
    for name in ("APVIZ_DATA", "APVIZ_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "", "example.org"])
def test_an_address_that_others_can_reach_requires_a_login_choice_before_the_start(tmp_path, address):
    with pytest.raises(ValueError, match="can be reached by others: choose a password with --basic-auth .* --no-auth"):
        serve(tmp_path / "runs", address=address)
    assert not (tmp_path / "runs").exists()


def test_the_ipv6_loopback_address_is_rejected_with_an_alternative(tmp_path):
    with pytest.raises(ValueError, match=r"::1 is not supported for this machine alone; use 127\.0\.0\.1"):
        serve(tmp_path / "runs", address="::1")
    assert not (tmp_path / "runs").exists()


def test_a_missing_data_set_is_rejected_before_the_start_with_how_to_get_it(tmp_path, nothing_here):
    runs = tmp_path / "runs"
    wanted = ["--runs", str(runs), "--dataset", "sgemm", "--port", str(free_port())]
    done = CliRunner().invoke(app, ["dashboard", "--no-show", *wanted])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and "Traceback" not in said
    assert "error: The data set 'sgemm' is not on this machine. Run `apviz datasets fetch sgemm`" in said
    assert not runs.exists()


def test_an_unknown_data_set_is_rejected_with_the_list_of_data_sets(tmp_path):
    with pytest.raises(ValueError, match="No data set is called 'chine'. Did you mean china"):
        serve(tmp_path / "runs", dataset="chine")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_password_is_rejected(tmp_path, given):
    with pytest.raises(ValueError, match="--basic-auth is empty, so anyone could log in"):
        serve(tmp_path / "runs", basic_auth=given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", ["users.json", "secrets/users.jsn", "/etc/apviz/users"])
def test_a_mistyped_name_of_a_file_does_not_become_the_password(tmp_path, given):
    with pytest.raises(ValueError, match="there is no file .*Give the path of a JSON file"):
        serve(tmp_path / "runs", basic_auth=given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("port", ["99999", "0", "-1"])
def test_an_invalid_port_is_rejected_in_one_sentence(tmp_path, port):
    done = CliRunner().invoke(app, ["dashboard", "--no-show", "--runs", str(tmp_path / "runs"), "--port", port])
    assert "--port" in done.output
    assert done.exit_code == 2 and "Traceback" not in done.output and not (tmp_path / "runs").exists()


def _lost():
    from bokeh.server.connection import ServerConnection

    connection = ServerConnection.__new__(ServerConnection)
    connection._session = None
    return connection.session


def _wrong():
    raise AssertionError("of ours")


@pytest.mark.parametrize(("fails", "is_told"), [(_lost, False), (_wrong, True)])
@pytest.mark.parametrize("name", ["bokeh.server.protocol_handler", "tornado.application"])
def test_the_log_omits_closed_tabs_and_reports_everything_else(fails, is_told, name):
    log, told = logging.Logger(name), []
    log.addFilter(server._is_of_open_tab)
    log.addHandler(logging.Handler())
    log.handlers[0].emit = told.append
    assert name in server._WRITERS
    try:
        fails()
    except AssertionError:
        log.error("it failed", exc_info=True)
    assert bool(told) == is_told


def test_an_idle_connection_gets_messages_because_proxies_close_silent_ones(monkeypatch):
    assert server.ALIVE_SECONDS < 60  # after which nginx closes it
    monkeypatch.setattr(server, "ALIVE_SECONDS", 0.05)

    async def main() -> None:
        port = free_port()
        page = server.build_server(
            lambda: pn.pane.Str(""), port, "127.0.0.1", Origins("127.0.0.1"), Limits(), show=False
        )  # fmt: skip
        page.start()
        url, got = f"http://127.0.0.1:{port}", asyncio.Event()
        answer = await AsyncHTTPClient().fetch(url)
        (token,) = re.findall(r'"token":\s*"([^"]+)"', answer.body.decode())
        request = HTTPRequest(f"{url.replace('http', 'ws')}/ws", headers={"Origin": url})
        line = await websocket_connect(
            request, subprotocols=["bokeh", token], on_message_callback=lambda message: None
        )  # fmt: skip
        line.on_ping = lambda data: got.set()
        await asyncio.wait_for(got.wait(), 10)
        line.close()
        page.stop()

    asyncio.run(main())
