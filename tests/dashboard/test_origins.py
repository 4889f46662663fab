"""Accepted hosts and origins: pages of other origins can neither read nor control the dashboard."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

pytest.importorskip("panel")

import tornado.web
import tornado.websocket
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from apviz.dashboard.origins import Origins

WEBSOCKET = {"Upgrade": "websocket", "Connection": "Upgrade"}
LOCAL, OPEN, PROXIED = Origins("127.0.0.1"), Origins("0.0.0.0"), Origins("127.0.0.1", ["https://gp.example.org"])
HERE = {"Host": "127.0.0.1:5006", "Origin": "http://127.0.0.1:5006"}


def why_refused(origins: Origins, headers: dict[str, str], method: str = "GET") -> str:
    line = RequestStartLine(method, "/ws", "HTTP/1.1")
    return origins.why_refused(HTTPServerRequest(start_line=line, headers=HTTPHeaders(headers)))


@pytest.mark.parametrize("origins", [LOCAL, OPEN, PROXIED])
@pytest.mark.parametrize("host", ["127.0.0.1:5006", "localhost:5006", "LOCALHOST:5006", "localhost", "127.0.0.1:9999"])
def test_own_names_are_answered_on_any_port_because_of_tunnels(origins, host):
    assert why_refused(origins, {"Host": host}) == ""
    for scheme in ("http", "https"):
        assert why_refused(origins, {"Host": host, "Origin": f"{scheme}://{host}", **WEBSOCKET}) == ""


@pytest.mark.parametrize("origins", [LOCAL, OPEN, PROXIED])
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1", "http://127.0.0.1:5007", "http://localhost:5006", "null", "",
     "http://127.0.0.1:5006.evil.example", "http://x@127.0.0.1:5006", "http://gp.example.org:80.evil.example",
     "http://127.0.0.1:bad", "//127.0.0.1:5006@evil.example"],
)  # fmt: skip
def test_a_page_of_another_origin_is_rejected_for_any_request(origins, origin):
    for method, more in (("GET", WEBSOCKET), ("GET", {}), ("POST", {}), ("OPTIONS", {})):
        said = why_refused(origins, HERE | {"Origin": origin} | more, method)
        assert said.startswith("Only its own pages may use this dashboard at 127.0.0.1:5006")


@pytest.mark.parametrize("origins", [LOCAL, OPEN, PROXIED])
@pytest.mark.parametrize(
    "host", ["evil.example:5006", "127.0.0.1.evil.example", "localhost.:5006", "1.2.3.4:5006", "", "[::1"]
)
def test_a_rebound_name_is_rejected_with_the_option_that_allows_it(origins, host):
    said = why_refused(origins, {"Host": host, "Origin": f"http://{host}", **WEBSOCKET})
    assert f"does not answer to the name {host}" in said and f"--allow-origin {host}" in said
    assert why_refused(origins, {"Host": host}) == said


def test_an_open_server_accepts_the_addresses_and_name_of_its_machine():
    for host in ("[::1]:5006", f"{socket.gethostname()}:5006"):
        assert why_refused(OPEN, {"Host": host, "Origin": f"http://{host}"}) == ""
        assert why_refused(LOCAL, {"Host": host}) != "" or socket.gethostname() == "localhost"


def test_a_proxy_is_named_by_the_host_that_visitors_see():
    origin = {"Origin": "https://gp.example.org", **WEBSOCKET}
    assert why_refused(PROXIED, {"Host": "gp.example.org", **origin}) == ""
    assert why_refused(PROXIED, {"Host": "127.0.0.1:5006", **origin}) == ""
    assert why_refused(PROXIED, {"Host": "127.0.0.1:5006", **origin, "Origin": "https://gp.example.org:8443"}) != ""
    # a header that anyone can send gives no access
    forged = {"X-Forwarded-Host": "127.0.0.1:5006", "X-Forwarded-For": "127.0.0.1"}
    assert why_refused(LOCAL, {"Host": "evil.example", **forged}) != ""
    assert "--allow-origin gp.example.org" in why_refused(LOCAL, HERE | origin | {"X-Forwarded-Host": "gp.example.org"})


def test_a_websocket_without_an_origin_is_rejected_with_the_origin_to_send():
    assert "Origin, which all browsers send; here it is http://127.0.0.1:5006" in why_refused(
        OPEN, {"Host": "127.0.0.1:5006", **WEBSOCKET}
    )


@pytest.mark.parametrize(
    ("site", "mode", "kind", "is_answered"),
    [("same-origin", "no-cors", "script", True), ("none", "navigate", "document", True),
     ("cross-site", "navigate", "document", True), ("cross-site", "navigate", "iframe", False),
     ("cross-site", "no-cors", "script", False), ("same-site", "no-cors", "image", False)],
)  # fmt: skip
def test_external_links_open_the_dashboard_but_no_external_page_loads_or_embeds_it(site, mode, kind, is_answered):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
    assert (why_refused(LOCAL, {"Host": "localhost:5006", **headers}) == "") is is_answered


@pytest.mark.parametrize("given", ["*", "https://gp.example.org/gp/", "", "http://", "a@b", "ftp://x", "x:99999"])
def test_an_option_without_a_host_is_rejected(given):
    with pytest.raises(ValueError, match="--allow-origin takes a host as browsers show it"):
        Origins("127.0.0.1", [given])


class Echo(tornado.websocket.WebSocketHandler):
    def check_origin(self, origin: str) -> bool:
        return True

    def open(self) -> None:
        self.write_message("in")


async def asked(port: int, path: str, headers: dict[str, str]) -> int:
    if path == "OPTIONS":
        request = HTTPRequest(f"http://127.0.0.1:{port}/ws", method="OPTIONS", headers=headers)
        return (await AsyncHTTPClient().fetch(request, raise_error=False)).code
    if path == "ws":
        try:
            line = await tornado.websocket.websocket_connect(HTTPRequest(f"ws://127.0.0.1:{port}/ws", headers=headers))
        except tornado.httpclient.HTTPClientError as error:
            return error.code
        assert await line.read_message() == "in"
        line.close()
        return 101
    request = HTTPRequest(f"http://127.0.0.1:{port}/{path}", headers=headers)
    answer = await AsyncHTTPClient().fetch(request, raise_error=False)
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self' gp.example.org"
    return answer.code


def test_the_guard_protects_every_handler_including_websockets():
    async def main() -> dict[str, int]:
        app = tornado.web.Application([("/ws", Echo), ("/.*", tornado.web.RequestHandler)])
        PROXIED.guard(app)
        # handlers added later, like the login, are protected too
        app.add_handlers(".*", [("/login", tornado.web.RedirectHandler, {"url": "/"})])
        server = HTTPServer(app)
        server.listen(0, "127.0.0.1")
        (port,) = {each.getsockname()[1] for each in server._sockets.values()}
        found = {}
        for path in ("ws", "login", "any", "OPTIONS"):
            for headers in ({"Origin": f"http://127.0.0.1:{port}"}, {"Origin": "http://evil.example"},
                            {"Origin": "http://evil.example", "Host": "evil.example"}, {}):  # fmt: skip
                found[f"{path} {json.dumps(headers).replace(str(port), 'port')}"] = await asked(port, path, headers)
        server.stop()
        return found

    found = asyncio.run(main())
    refused = {each: code for each, code in found.items() if "evil" in each or each == "ws {}"}
    assert len(refused) == 9 and set(refused.values()) == {403}, found
    # by this request a page asks whether its WebSocket would be rejected
    assert found['OPTIONS {"Origin": "http://127.0.0.1:port"}'] == 204
    assert 403 not in {code for each, code in found.items() if each not in refused}, found
