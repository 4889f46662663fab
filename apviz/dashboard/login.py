"""The login of a dashboard with a password: who guesses is made to wait."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from panel.auth import BasicLoginHandler

#: wrong passwords from one address before one waits; the first seconds of waiting, which double; and the most
FREE, FIRST_SECONDS, MOST_SECONDS = 5, 0.5, 8.0
#: addresses that are remembered; seconds after which a wrong password is forgotten
ADDRESSES, FORGOTTEN_SECONDS = 10_000, 900.0


@dataclass
class _Guesser:
    wrong: int = 0
    last: float = 0.0
    #: when the next try is looked at
    free_at: float = 0.0


class Tries:
    """Wrong passwords by address, and how long the next try from there waits; tries at once wait for one another."""

    def __init__(self) -> None:
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()

    def seconds(self, address: str, now: float) -> float:
        """Seconds until a try that comes now is looked at; infinite where too many wait already."""
        guesser = self._guessers.get(address)
        if guesser is None or now - guesser.last > FORGOTTEN_SECONDS or guesser.wrong < FREE:
            return 0.0
        if guesser.free_at - now > 2 * MOST_SECONDS:
            return float("inf")
        guesser.free_at = max(guesser.free_at, now) + min(
            FIRST_SECONDS * 2.0 ** min(guesser.wrong - FREE, 16), MOST_SECONDS
        )
        return guesser.free_at - now

    def wrong(self, address: str, now: float) -> None:
        """A password was wrong."""
        guesser = self._guessers.setdefault(address, _Guesser())
        guesser.wrong = guesser.wrong + 1 if now - guesser.last <= FORGOTTEN_SECONDS else 1
        guesser.last = now
        self._guessers.move_to_end(address)
        while len(self._guessers) > ADDRESSES:
            self._guessers.popitem(last=False)

    def right(self, address: str) -> None:
        """A password was right."""
        self._guessers.pop(address, None)


class Login(BasicLoginHandler):
    """Panel's, where every try from an address waits longer once some were wrong."""

    def initialize(self, tries: Tries) -> None:
        self._tries = tries

    async def post(self) -> None:
        address = str(self.request.remote_ip)
        wait = self._tries.seconds(address, time.monotonic())
        if wait == float("inf"):
            self.set_status(429)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.set_header("Retry-After", str(round(2 * MOST_SECONDS)))
            self.finish("Too many passwords were tried from this address; wait a minute and try again.")
            return
        await asyncio.sleep(wait)
        is_right = self._validate(self.get_argument("username", ""), self.get_argument("password", ""))
        if is_right:
            self._tries.right(address)
        else:
            self._tries.wrong(address, time.monotonic())
        super().post()
