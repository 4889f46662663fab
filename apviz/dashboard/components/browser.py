"""Facts known only to the browser: the visitor's token, the screen width, and lost connections."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import param

from apviz.dashboard.components.script_component import ScriptComponent

#: Random name of this process, by which a page recognises that the server has restarted.
SERVER = secrets.token_hex(8)


class Browser(ScriptComponent):
    """Component without a view. The browser sets the first three values on page load, the server the others.

    Args:
        step: Called with the name of the page to which the browser went back or forward.
    """

    visitor = param.String("", doc="random name that this browser keeps; empty where it keeps nothing")
    lost = param.Dict({}, doc="when the connection was lost (seconds since 1970), of which server, what ran then")
    pixels = param.Integer(0, doc="width of the screen; 0 until the browser has said it")
    server = param.String(SERVER, doc="name of the process that serves the page")
    jobs = param.List([], item_type=str, doc="running jobs, in words")
    theme = param.String("light", doc="theme of the page, by which the tokens of `tokens.css` are chosen")
    page = param.String("", doc="name of the open page; a change scrolls to its top")
    answered = param.String("", doc="the last step Back or Forward that the server has taken: its number and page")
    drawing = param.Boolean(False, doc="whether charts are still to be drawn")
    asked = param.Integer(0, doc="how often the server has asked whether the browser is idle")
    idle = param.Integer(0, doc="the last of these questions that an idle browser has answered")

    is_heard = param.Boolean(False, doc="whether what the browser says when it comes has had its effect")

    _esm = Path(__file__).with_name("browser.js")

    def __init__(self, step: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.on_msg(lambda event: self._take(str(event.data), step))

    def _take(self, told: str, step: Callable[[str], None]) -> None:
        """Open the page of a step, then answer, so that the answer follows the address of that page."""
        step(told.partition(" ")[2])
        self.answered = told
