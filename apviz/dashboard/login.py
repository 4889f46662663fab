"""The login of a password-protected dashboard. Repeated wrong passwords are delayed."""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from panel.auth import BasicLoginHandler

#: Login attempts per address without delay; first delay in seconds, which then doubles; longest delay in seconds.
FREE, FIRST_SECONDS, MOST_SECONDS = 5, 0.5, 8.0
#: Most addresses remembered; seconds after the last attempt until an address's attempts are forgotten.
ADDRESSES, FORGOTTEN_SECONDS = 10_000, 900.0

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>apviz: log in</title>
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
html {{ background: light-dark(#fff, #14171c); color: light-dark(#1b1f24, #edf0f3) }}
body {{ font: 16px system-ui, sans-serif; margin: 20vh auto; max-width: 20em; padding: 0 1em }}
label, input, button {{ display: block; width: 100%; box-sizing: border-box; margin: 0.4em 0; font: inherit }}
input, button {{ padding: 0.5em 0.7em; border: 1px solid light-dark(#767f8a, #8a94a1); border-radius: 6px }}
input {{ background: none; color: inherit }}
button {{ border: 0; background: light-dark(#33415c, #c5d0e4); color: light-dark(#fff, #14171c); cursor: pointer }}
:is(input, button):focus-visible {{ outline: 2px solid light-dark(#33415c, #c5d0e4); outline-offset: 2px }}
[role=alert] {{ color: light-dark(#b3261e, #ffb4ab); min-height: 1.4em; margin: 0.6em 0 }}
</style>
<main><h1>apviz</h1>
<form method="post"><input type="hidden" name="_xsrf" value="{token}">
{name}
<label>Password <input name="password" type="password" autocomplete="current-password" {focus}></label>
<p role="alert">{error}</p>
<button type="submit">Log in</button></form></main>
"""
#: Field that only a file of several users needs.
_NAME: Final = '<label>User name <input name="username" autocomplete="username" autocapitalize="off" autofocus></label>'


def page(token: str, error: str, *, has_users: bool) -> str:
    """Return the HTML of the login.

    Args:
        has_users: Whether to ask for a user name.
    """
    name, focus = (_NAME, "") if has_users else ("", "autofocus")
    return _PAGE.format(token=html.escape(token), error=html.escape(error), name=name, focus=focus)


@dataclass
class _Guesser:
    tries: int = 0
    last: float = 0.0
    #: Time at which the next attempt is checked.
    free_at: float = 0.0


class Tries:
    """Login attempts by address. An attempt counts as wrong until it succeeds; simultaneous attempts queue."""

    def __init__(self) -> None:
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()

    def begin(self, address: str, now: float) -> float:
        """Count an attempt made now and return the seconds until its check; infinite if too many already wait."""
        guesser = self._guessers.setdefault(address, _Guesser())
        if now - guesser.last > FORGOTTEN_SECONDS:
            guesser.tries = 0
        guesser.tries, guesser.last = guesser.tries + 1, now
        self._guessers.move_to_end(address)
        while len(self._guessers) > ADDRESSES:
            self._guessers.popitem(last=False)
        beyond = guesser.tries - FREE - 1
        if beyond < 0:
            return 0.0
        if guesser.free_at - now > 2 * MOST_SECONDS:
            return math.inf
        guesser.free_at = max(guesser.free_at, now) + min(FIRST_SECONDS * 2.0 ** min(beyond, 16), MOST_SECONDS)
        return guesser.free_at - now

    def right(self, address: str) -> None:
        """Forget the attempts of an address after a correct password."""
        self._guessers.pop(address, None)


class Login(BasicLoginHandler):
    """Panel's login with apviz's own page.

    After some wrong attempts from an address, each further attempt waits longer. The form carries a token that no
    other page can know. Browsers send the cookies only with requests from the dashboard's own pages. All addresses are
    relative, because only the browser knows the prefix under which a proxy serves the dashboard.

    Args:
        given: A password, or the path of a JSON file of users and passwords.
    """

    def initialize(self, given: str, tries: Tries) -> None:
        self._given, self._tries, self._address = given, tries, str(self.request.remote_ip)

    def get(self) -> None:
        self._show("")

    async def post(self) -> None:
        self.check_xsrf_cookie()
        wait = self._tries.begin(self._address, time.monotonic())
        if wait == math.inf:
            self.set_status(429)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.set_header("Retry-After", str(round(2 * MOST_SECONDS)))
            self.finish("Too many passwords were tried from this address; wait a minute and try again.")
            return
        await asyncio.sleep(wait)
        username = self.get_body_argument("username", "")
        if not is_right(self._given, username, self.get_body_argument("password", "")):
            self.set_status(403)
            self._show("Wrong user name or password." if self._has_users else "Wrong password.")
            return
        self._tries.right(self._address)
        self.set_current_user(username or "visitor")
        self.redirect(inside(self.get_query_argument("next", "")), status=303)

    def _show(self, error: str) -> None:
        self.set_header("Cache-Control", "no-store")
        self.write(page(self.xsrf_token.decode(), error, has_users=self._has_users))

    @property
    def _has_users(self) -> bool:
        return Path(self._given).is_file()

    def set_cookie(self, name: str, value: str | bytes, *args: Any, **options: Any) -> None:
        """Set a cookie for this folder of pages, restricted to TLS if this page was requested over TLS."""
        come_by = self.request.protocol, self.request.headers.get("X-Forwarded-Proto", "")
        is_encrypted = any(each.startswith("https") for each in come_by)
        options |= {"path": None, "httponly": True, "samesite": "Strict", "secure": is_encrypted}
        super().set_cookie(name, value, *args, **options)


def is_right(given: str, username: str, password: str) -> bool:
    """Return whether a password equals the given one, or the user's password in the given JSON file."""
    expected = json.loads(Path(given).read_text("utf-8")).get(username) if Path(given).is_file() else given
    return isinstance(expected, str) and hmac.compare_digest(expected.encode(), password.encode())


def inside(wanted: str) -> str:
    """Return the relative address of the page requested before the login; the start page for any other target."""
    parts = urlsplit(wanted)
    if parts.scheme or parts.netloc or parts.path not in ("", "/") or not parts.query.isprintable():
        return "./"
    return f"./?{parts.query}" if parts.query else "./"
