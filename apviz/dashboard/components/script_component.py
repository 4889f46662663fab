"""Base class of components whose script is plain JavaScript."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from panel.custom import JSComponent


class ScriptComponent(JSComponent):
    """Component whose script the browser runs as it is. Panel would compile it from TypeScript in the browser first."""

    __abstract = True

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        properties: dict[str, Any] = super()._get_properties(doc)
        return properties | {"bundle": _digest(properties["esm"])}


@cache
def _digest(script: str) -> str:
    """Return the name under which the browser keeps a script that needs no compilation."""
    return hashlib.sha256(script.encode()).hexdigest()
