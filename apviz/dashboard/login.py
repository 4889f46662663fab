"""The login of a dashboard with a password: who guesses is made to wait."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import dataclass

from panel.auth import BasicLoginHandler

#: tries from one address before one waits; the first seconds of waiting, which double; and the most
FREE, FIRST_SECONDS, MOST_SECONDS = 5, 0.5, 8.0
#: addresses that are remembered; seconds after the last try until all are forgotten
ADDRESSES, FORGOTTEN_SECONDS = 10_000, 900.0


@dataclass
class _Guesser:
    tries: int = 0
    last: float = 0.0
    #: when the next try is looked at
    free_at: float = 0.0


class Tries:
    """Tries by address, each of which counts as wrong until it was right; many at once wait for one another."""

    def __init__(self) -> None:
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()

    def begin(self, address: str, now: float) -> float:
        """Counts a try that comes now; seconds until it is looked at, infinite where too many wait already."""
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
        """A password was right."""
        self._guessers.pop(address, None)


class Login(BasicLoginHandler):
    """Panel's, where every try from an address waits longer once some were wrong."""

    def initialize(self, tries: Tries) -> None:
        self._tries, self._address = tries, str(self.request.remote_ip)

    async def post(self) -> None:
        wait = self._tries.begin(self._address, time.monotonic())
        if wait == math.inf:
            self.set_status(429)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.set_header("Retry-After", str(round(2 * MOST_SECONDS)))
            self.finish("Too many passwords were tried from this address; wait a minute and try again.")
            return
        await asyncio.sleep(wait)
        super().post()

    def _validate(self, username: str, password: str) -> bool:
        is_right = bool(super()._validate(username, password))
        if is_right:
            self._tries.right(self._address)
        return is_right
