"""Passwords: the right one gives access, and guessing takes hours."""

from __future__ import annotations

import asyncio
import math
import re
from http.cookies import SimpleCookie
from urllib.parse import urlencode, urljoin, urlsplit

import pytest

pytest.importorskip("panel")

import panel as pn
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from apviz.dashboard import login
from apviz.dashboard.limits import Limits
from apviz.dashboard.login import Tries
from apviz.dashboard.origins import Origins
from apviz.dashboard.server import build_server
from tests.dashboard.proxying import PREFIX, listening
from tests.ports import free_port


def hours_for(guesses: int) -> float:
    """Return the hours for guesses that are sent one after another."""
    tries, now = Tries(), 0.0
    for _ in range(guesses):
        now += tries.begin("1.2.3.4", now)
    return now / 3600


def test_a_few_mistakes_cost_nothing_and_ten_thousand_guesses_take_most_of_a_day():
    assert hours_for(5) == 0.0 and hours_for(8) < 10 / 3600
    assert 20 < hours_for(10_000) < 24


def test_simultaneous_guesses_queue_and_too_many_are_rejected_unchecked():
    tries = Tries()
    waits = [tries.begin("1.2.3.4", 0.0) for _ in range(1000)]
    assert waits[:10] == [0, 0, 0, 0, 0, 0.5, 1.5, 3.5, 7.5, 15.5]
    assert all(map(math.isinf, waits[12:])) and max(waits[:11]) < 3 * login.MOST_SECONDS


def test_other_visitors_do_not_wait_for_an_attacker():
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    assert tries.begin("5.6.7.8", 0.0) == 0.0 < tries.begin("1.2.3.4", 0.0)


@pytest.mark.parametrize(
    ("later", "waits"), [(login.FORGOTTEN_SECONDS - 1, True), (login.FORGOTTEN_SECONDS + 1, False)]
)
def test_attempts_are_forgotten_after_a_quarter_of_an_hour(later, waits):
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    assert (tries.begin("1.2.3.4", later) > 0.0) is waits


def test_the_right_password_clears_wrong_attempts():
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    tries.right("1.2.3.4")
    assert tries.begin("1.2.3.4", 0.0) == 0.0


def test_guesses_from_many_addresses_use_limited_memory():
    tries = Tries()
    for number in range(3 * login.ADDRESSES):
        tries.begin(str(number), float(number))
    assert len(tries._guessers) == login.ADDRESSES


# --- the page, through a server and a proxy -----------------------------------------------------------------------


class Browser:
    """Follows redirects and keeps cookies like a browser."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url, self.headers, self.jar = url, headers, SimpleCookie()
        self.set: list[str] = []

    async def ask(self, path: str, **form: str) -> tuple[int, str, str]:
        """Return status, address and text of the final answer for a path."""
        url, method = urljoin(self.url, path), "POST" if form else "GET"
        for _ in range(5):
            headers = self.headers | {"Cookie": "; ".join(f"{k}={each.value}" for k, each in self.jar.items())}
            answer = await AsyncHTTPClient().fetch(
                HTTPRequest(
                    url, method, headers, urlencode(form) if method == "POST" else None, follow_redirects=False
                ),
                raise_error=False,
            )
            self.set += answer.headers.get_list("Set-Cookie")
            for each in answer.headers.get_list("Set-Cookie"):
                self.jar.load(each)
            if answer.code not in (302, 303):
                return answer.code, url, answer.body.decode()
            url, method = urljoin(url, answer.headers["Location"]), "GET"
        raise AssertionError("it is redirected for ever")

    async def log_in(self, password: str, path: str = "") -> tuple[int, str, str]:
        """Fill in the form at a path."""
        _, url, text = await self.ask(path)
        (token,) = re.findall(r'name="_xsrf" value="([^"]+)"', text)
        return await self.ask(url, username="", password=password, _xsrf=token)


def visit(do, *, keeps_host: bool = True, password: str = "open sesame"):
    """Run `do(direct, proxied)` against a real server with a page of one word, and a proxy."""

    async def main():
        port = free_port()
        origins = Origins("127.0.0.1", ["https://gp.example.org"])
        page = build_server(lambda: pn.pane.Str("inside"), port, "127.0.0.1", origins, Limits(), password, show=False)
        page.start()
        front, address = listening(port, keeps_host=keeps_host)
        there = Browser(address, Host="gp.example.org", Origin="https://gp.example.org")
        there.headers["X-Forwarded-Proto"] = "https"
        try:
            return await do(Browser(f"http://127.0.0.1:{port}/"), there)
        finally:
            front.stop()
            page.stop()

    return asyncio.run(main())


@pytest.mark.parametrize("keeps_host", [True, False])
def test_the_login_respects_the_prefix_of_a_proxy_and_returns_to_the_requested_view(keeps_host):
    async def do(direct, proxied):
        return [await each.log_in("open sesame", "?page=runs&x=a%20b") for each in (direct, proxied)]

    for (code, url, text), base in zip(visit(do, keeps_host=keeps_host), ("/?", f"{PREFIX}?"), strict=True):
        assert code == 200 and '"token":' in text
        assert urlsplit(url).path + "?" + urlsplit(url).query == f"{base}page=runs&x=a%20b"


def test_cookies_are_same_site_and_hidden_from_scripts():
    async def do(direct, proxied):
        await direct.log_in("open sesame")
        await proxied.log_in("open sesame")
        return direct.set, proxied.set

    direct, proxied = visit(do)
    assert {each.partition("=")[0] for each in direct} >= {"_xsrf", "user"}
    for each in direct + proxied:
        assert "SameSite=Strict" in each and "HttpOnly" in each and "Path" not in each, each
    assert all("Secure" in each for each in proxied) and not any("Secure" in each for each in direct)


def test_a_form_without_the_token_of_the_page_is_rejected_and_is_not_an_attempt():
    async def do(direct, proxied):
        await direct.ask("login")
        found = [await direct.ask("login", password="open sesame") for _ in range(20)]
        found.append(await direct.ask("login", password="open sesame", _xsrf="2|00000000|0000|1"))
        return found, await direct.log_in("open sesame")

    refused, (code, _, text) = visit(do)
    assert {each[0] for each in refused} == {403} and code == 200 and '"token":' in text


def test_only_a_file_of_users_asks_for_a_name():
    assert "User name" in login.page("", "", has_users=True)
    assert "User name" not in login.page("", "", has_users=False)


def test_a_wrong_password_is_reported_and_gives_no_access():
    async def do(direct, proxied):
        return await direct.log_in("wrong"), await direct.ask("")

    (code, _, text), (_, url, _) = visit(do)
    assert code == 403 and "Wrong password." in text and "/login?next=" in url


def test_a_body_larger_than_a_form_is_not_read():
    async def do(direct, proxied):
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(direct.url).port)
        writer.write(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    answer = visit(do)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("wanted", "to"),
    [("/", "./"), ("", "./"), ("/?page=runs", "./?page=runs"), ("/?a=%0d%0aSet-Cookie", "./?a=%0d%0aSet-Cookie"),
     ("http://evil.example/", "./"), ("//evil.example/?x=1", "./"), ("/\\evil.example", "./"), ("/other", "./"),
     ("javascript:alert(1)", "./"), ("/?x=\x01y", "./"), ("\\\\evil.example", "./"), ("?x=//evil", "./?x=//evil")],
)  # fmt: skip
def test_after_the_login_only_views_of_the_dashboard_can_open(wanted, to):
    assert login.inside(wanted) == to


def test_every_user_has_a_password_and_unknown_users_are_rejected(tmp_path):
    (tmp_path / "users.json").write_text('{"ada": "x", "bob": "ü", "eve": null}')
    given = str(tmp_path / "users.json")
    right = {(user, word) for user in ("ada", "bob", "eve", "") for word in ("x", "ü", "", given, "None")
             if login.is_right(given, user, word)}  # fmt: skip
    assert right == {("ada", "x"), ("bob", "ü")}
    assert login.is_right("ü", "anybody", "ü") and not login.is_right("ü", "anybody", "u")
