"""Answer fast: build one page before the server listens, and send the head of a page before its body is built."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from bokeh.document import Document
from bokeh.server.session import ServerSession
from bokeh.server.tornado import BokehTornado
from panel.io.server import AuthenticatedStaticFileHandler, DocHandler
from panel.io.state import set_curdoc

#: Script that the charts wait for.
SCRIPT: Final = '<script id="plotly-script" async fetchpriority="high" src="plotly/plotly.min.js"></script>'
#: Beginning of every page. A browser that gets the rest as well ignores what it has already got.
HEAD: Final = f'<!DOCTYPE html>\n<html lang="en" data-theme-managed="true">\n<head>\n<meta charset="utf-8">\n{SCRIPT}\n'
#: Script of Panel that `page.js` replaces.
SHIMS: Final = re.compile(r"<script[^>]*es-module-shims[^>]*></script>")
#: Most seconds until a browser requests the script of the head, and until it has received the script.
ASKS_SECONDS, GETS_SECONDS = 0.1, 0.3
#: Seconds between two checks.
_STEP = 0.005


def rehearse(session: Callable[[], Any]) -> None:
    """Build one page with an editor, and discard them, because the first of a process take twice as long as others."""
    document = Document()
    try:
        with set_curdoc(document):
            built = session()
            built.view().server_doc(document)
            built.open_editor("data")
        for end in document.session_destroyed_callbacks:
            end(SimpleNamespace(_document=document, id="rehearsal", logged_in=False))
    except Exception:
        # a visitor gets the same error, with its place on the page
        logging.getLogger(__name__).debug("the rehearsal of the first page failed", exc_info=True)


class PageHandler(DocHandler):
    """Handler that sends the head of a page at once, so that the browser reads plotly.js while the page is built.

    The server builds a page in one piece, during which it answers no other request. So it sends the script first.
    """

    _has_head = False

    async def get_session(self) -> ServerSession:
        # invalid sessions of other requests need another status
        is_plain = self.request.method == "GET" and not any("session" in name.lower() for name in self.request.headers)
        if is_plain and not {"bokeh-token", "bokeh-session-id"} & set(self.request.arguments):
            self._has_head = True
            self.set_header("Content-Type", "text/html")
            super().write(HEAD)
            await self.flush()
            await _sent()
        session: ServerSession = await super().get_session()
        return session

    def write(self, chunk: Any) -> None:
        if self._has_head and isinstance(chunk, str):
            chunk = SHIMS.sub("", chunk.partition(SCRIPT)[2]) or chunk
        super().write(chunk)


class ScriptHandler(AuthenticatedStaticFileHandler):
    """Handler of plotly.js that counts its unfinished answers."""

    unfinished = 0

    def prepare(self) -> None:
        ScriptHandler.unfinished += 1

    def on_finish(self) -> None:
        ScriptHandler.unfinished -= 1


async def _sent() -> None:
    """Wait until a browser has requested the script, and until all have received it."""
    started = time.monotonic()
    while not ScriptHandler.unfinished and time.monotonic() - started < ASKS_SECONDS:
        await asyncio.sleep(_STEP)
    while ScriptHandler.unfinished and time.monotonic() - started < GETS_SECONDS:
        await asyncio.sleep(_STEP)


def use_handler(application: BokehTornado) -> None:
    """Let the pages of a server be answered by `PageHandler`; other servers of the process keep theirs."""
    for rule in application.wildcard_router.rules:
        if rule.target is DocHandler:
            rule.target = PageHandler
