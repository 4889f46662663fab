"""Filter of requests. It admits only requests for a host of this server from the server's own pages."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import psutil
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import Application, OutputTransform, RequestHandler

from apviz.dashboard.entrance import is_local


class Origins:
    """Hosts that the server answers to, and origins whose pages may use it.

    A foreign page must not control the dashboard through a visitor's browser. It must not pass for a page of the
    dashboard under a name that resolves to this server (DNS rebinding) either. Proxy headers such as X-Forwarded-Host
    grant no access, because anyone can send them.

    Args:
        address: Interface that the server listens on.
        allowed: Hosts or origins that visitors may use, such as `gp.example.org` or `https://gp.example.org:8443`.

    Raises:
        ValueError: An entry of `allowed` names no host.
    """

    def __init__(self, address: str, allowed: Iterable[str] = ()) -> None:
        self._is_local, self._allowed = is_local(address), {_host_of(each) for each in allowed}
        own = {"localhost", "127.0.0.1", address.lower()}
        if not self._is_local:
            own |= {"::1", socket.gethostname().lower()}
        self._names = own | {_name(host) for host in self._allowed}

    @property
    def allowed(self) -> list[str]:
        """Return the hosts of `allowed`, with their ports."""
        return sorted(self._allowed)

    def why_refused(self, request: HTTPServerRequest) -> str:
        """Return why a request is refused, and what to do about it; empty if the request is admitted."""
        host, headers = request.host.lower(), request.headers
        if not self._is_own(_name(host)):
            return f"This dashboard does not answer to the name {host}. {_how_to_allow(host)}"
        if "Origin" in headers:
            origin = _netloc(headers["Origin"])
            if origin == host or origin in self._allowed:
                return ""
            said = f"Only its own pages may use this dashboard at {host}, not one of {headers['Origin']}."
            return f"{said} {_how_to_allow(origin)}" if origin else said
        if headers.get("Upgrade", "").lower() == "websocket":
            return f"A WebSocket needs the header Origin, which all browsers send; here it is http://{host}."
        opens = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        if headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not opens:
            return "Only its own pages may load or embed what this dashboard serves; open it in a tab of its own."
        return ""

    def guard(self, application: Application) -> None:
        """Refuse other requests before any handler of the application sees them; forbid other pages to embed it."""
        application.default_router.rules.insert(0, Rule(_Refused(self), _Refusal))
        embedding = " ".join(["frame-ancestors 'self'", *self.allowed])
        application.add_transform(lambda request: _OwnFrames(request, embedding))  # type: ignore[arg-type]

    def _is_own(self, name: str) -> bool:
        if name in self._names or self._is_local:
            return name in self._names
        try:
            wanted = ipaddress.ip_address(name)
        except ValueError:
            return False
        # Look the addresses up on every request, because a laptop gets new ones in another network.
        found = (each.address.partition("%")[0] for card in psutil.net_if_addrs().values() for each in card
                 if each.family in (socket.AF_INET, socket.AF_INET6))  # fmt: skip
        return any(ipaddress.ip_address(each) == wanted for each in found)


class _Refused(Matcher):
    """Matcher of refused requests, and of OPTIONS, with which a page asks whether its WebSocket would be refused."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        why = self._origins.why_refused(request)
        return {"target_kwargs": {"why": why}} if why or request.method == "OPTIONS" else None


class _Refusal(RequestHandler):
    def initialize(self, why: str) -> None:
        self._why = why

    def prepare(self) -> None:
        self.set_status(403 if self._why else 204)
        if self._why:
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.write(self._why)
        self.finish()


class _OwnFrames(OutputTransform):
    """Headers of every answer. They forbid framing, where clicks meant for another page would press our buttons."""

    def __init__(self, request: HTTPServerRequest, policy: str) -> None:
        self._policy = policy

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers["Content-Security-Policy"] = self._policy
        headers["X-Content-Type-Options"] = "nosniff"
        return status_code, headers, chunk


def _host_of(given: str) -> str:
    """Return the host, with its port, of an option."""
    parts = urlsplit(given if "//" in given else f"//{given}")
    try:
        is_host = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc and "*" not in parts.netloc
    except ValueError:  # invalid port
        is_host = False
    if not is_host or parts.path not in ("", "/") or parts.query or parts.scheme not in ("", "http", "https"):
        raise ValueError(
            f"--allow-origin takes a host as browsers show it, such as gp.example.org or https://gp.example.org:8443, "
            f"without a path, got {given!r}"
        )
    return _netloc(given if "//" in given else f"//{given}")


def _netloc(origin: str) -> str:
    """Return host and port of an origin, as browsers write them in the Host header; empty if there is none."""
    try:
        parts = urlsplit(origin.lower())
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        return parts.netloc.removesuffix(f":{usual}") if parts.port == usual else parts.netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """Return the name or IP address of a host, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _how_to_allow(host: str) -> str:
    return f"If visitors use this name, start the dashboard with --allow-origin {host}."
