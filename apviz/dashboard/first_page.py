"""Answer fast: build a page before its visitor comes, and send the head of other pages before their body is built."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession, current_time
from bokeh.server.tornado import BokehTornado
from bokeh.util.token import generate_jwt_token, generate_session_id
from panel.io.server import AuthenticatedStaticFileHandler, DocHandler
from panel.io.state import set_curdoc
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

#: Script that the charts wait for.
SCRIPT: Final = '<script id="plotly-script" async fetchpriority="high" src="plotly/plotly.min.js"></script>'
#: Beginning of every page. A browser that gets the rest as well ignores what it has already got.
HEAD: Final = f'<!DOCTYPE html>\n<html lang="en" data-theme-managed="true">\n<head>\n<meta charset="utf-8">\n{SCRIPT}\n'
#: Script of Panel that `page.js` replaces, and script for WebGL, which only Bokeh's own figures use.
UNUSED: Final = re.compile(r"<script[^>]*(?:es-module-shims|bokeh-gl)[^>]*></script>")
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


class ReadySession:
    """A session that is built before a visitor comes, for the first request of an address without settings.

    Args:
        contents: Function that returns what the pages list. A session is not used if that has changed since.
    """

    def __init__(self, application: BokehTornado, context: ApplicationContext, contents: Callable[[], object]) -> None:
        self._application, self._context, self._contents = application, context, contents
        self._signs = {"secret_key": application.secret_key, "signed": application.sign_sessions}
        self._held: ServerSession | None = None
        self._listed: object = None

    async def build(self) -> None:
        """Build the session, and keep it until a visitor takes it."""
        self._listed = self._contents()
        name = generate_session_id(**self._signs)
        line, headers = RequestStartLine("GET", "/", "HTTP/1.1"), HTTPHeaders({"Host": "localhost"})
        request, token = HTTPServerRequest(start_line=line, headers=headers), generate_jwt_token(name, **self._signs)
        session = await self._context.create_session_if_needed(name, request, token)
        session.block_expiration()
        self._held = session

    def take(self, payload: Any) -> ServerSession | None:
        """Return the session; None if it was taken before, or lists what is no longer there.

        Args:
            payload: What Panel stores of the visitor's request.
        """
        session, self._held = self._held, None
        if session is None:
            return None
        session.unblock_expiration()
        if self._contents() != self._listed:
            return None  # the server discards it soon, as a session without a visitor
        session._last_unsubscribe_time = current_time()
        expiration = self._application.session_token_expiration
        session._token = generate_jwt_token(session.id, expiration=expiration, extra_payload=payload, **self._signs)
        return session


class PageHandler(DocHandler):
    """Handler that answers with the session that is ready, or sends the head of a page before it builds the page.

    The server builds a page in one piece, during which it answers no other request. So it sends the script of the
    charts first, and the browser reads that meanwhile.
    """

    _is_page = _has_head = False

    def initialize(self, *args: Any, ready: ReadySession, **more: Any) -> None:
        self._ready = ready
        super().initialize(*args, **more)

    async def get_session(self) -> ServerSession:
        # invalid sessions of other requests need another status
        is_plain = self.request.method == "GET" and not any("session" in name.lower() for name in self.request.headers)
        if is_plain and not {"bokeh-token", "bokeh-session-id"} & set(self.request.arguments):
            self._is_page = True
            if not self.request.arguments:
                found = self._ready.take(self._generate_token_payload())
                if found is not None:
                    return found
            self.set_header("Content-Type", "text/html")
            super().write(HEAD)
            self._has_head = True
            await self.flush()
            await _sent()
        session: ServerSession = await super().get_session()
        return session

    def write(self, chunk: Any) -> None:
        if self._is_page and isinstance(chunk, str) and SCRIPT in chunk:
            chunk = UNUSED.sub("", chunk.partition(SCRIPT)[2] if self._has_head else chunk)
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


def use_handler(application: BokehTornado, contents: Callable[[], object] | None = None) -> None:
    """Let the pages of a server be answered by `PageHandler`; other servers of the process keep theirs.

    Args:
        contents: What the pages list, if a session is to be ready for the first visitor.
    """
    for rule in application.wildcard_router.rules:
        if rule.target is DocHandler:
            ready = ReadySession(application, rule.target_kwargs["application_context"], contents or (lambda: None))
            rule.target, rule.target_kwargs = PageHandler, rule.target_kwargs | {"ready": ready}
            if contents is not None:
                application.io_loop.add_callback(ready.build)
