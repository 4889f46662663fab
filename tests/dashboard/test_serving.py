"""Which addresses the server listens on, and what it asks for before it does."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("panel")

from typer.testing import CliRunner

from apviz.cli import app
from apviz.dashboard import serve, server


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    """A machine without any data but what comes with apviz."""
    for name in ("APVIZ_DATA", "APVIZ_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "", "example.org"])
def test_an_address_that_others_can_reach_asks_who_may_come_before_anything_is_made(tmp_path, address):
    with pytest.raises(ValueError, match="can be reached by others: choose a password with --basic-auth .* --no-auth"):
        serve(tmp_path / "runs", address=address)
    assert not (tmp_path / "runs").exists()


def test_the_own_address_of_ipv6_is_refused_with_the_one_to_take(tmp_path):
    with pytest.raises(ValueError, match=r"::1 cannot be served to this machine alone; take 127\.0\.0\.1"):
        serve(tmp_path / "runs", address="::1")
    assert not (tmp_path / "runs").exists()


def test_a_data_set_that_is_not_here_is_refused_with_how_to_get_it_before_anything_is_made(tmp_path, nothing_here):
    runs = tmp_path / "runs"
    done = CliRunner().invoke(app, ["dashboard", "--no-show", "--runs", str(runs), "--dataset", "sgemm"])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and "Traceback" not in said
    assert "error: The data set 'sgemm' is not on this machine. Run `apviz datasets fetch sgemm`" in said
    assert not runs.exists()


def test_an_unknown_data_set_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(ValueError, match="No data set is called 'chine'. Did you mean china"):
        serve(tmp_path / "runs", dataset="chine")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_password_is_refused_not_served_without_a_login(tmp_path, given):
    with pytest.raises(ValueError, match="--basic-auth is empty, so no password would be needed"):
        serve(tmp_path / "runs", basic_auth=given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", ["users.json", "secrets/users.jsn", "/etc/apviz/users"])
def test_a_mistyped_name_of_a_file_does_not_become_the_password(tmp_path, given):
    with pytest.raises(ValueError, match="there is no file .*Give the path of a JSON file"):
        serve(tmp_path / "runs", basic_auth=given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("port", ["99999", "0", "-1"])
def test_a_port_that_is_none_is_refused_in_a_sentence(tmp_path, port):
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
def test_the_log_is_silent_about_tabs_that_were_closed_and_tells_all_else(fails, is_told, name):
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
