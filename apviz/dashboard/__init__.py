"""The dashboard: a Panel app on top of the library. It contains no mathematics.

A module imports only modules further down this list; import-linter checks this:

- `entrance`: access rules, and the server that answers during imports. `server`, `session`: the server, and one
  visitor's address and pages. `editors`: the bar of chips, and the drawer with the settings. `preview`: what is shown
  until the scripts have loaded. `first_page`: one page built in advance, and the head of each page. `tokens.css`: type,
  spacing and colours.
- `pages/`: the pages. They share `pages.base`; no page imports another.
- `jobs/`: work in threads, a limited number at once, and the bar that shows its progress.
- `settings/`: the visitor's settings, as models with their widgets and as plain values for a job.
- `components/`: one figure of `apviz.plots` on a page, the player, the cursor, the diagnosis, tables. They use traces.
- `address`: settings as text. `store/`: the runs on disk, and the examples of a new folder. `limits`: limits on the
  resources of one visitor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apviz.dashboard.limits import Limits
    from apviz.dashboard.server import serve

__all__ = ["Limits", "serve"]


def __getattr__(name: str) -> Any:
    """Import `Limits` and `serve` on first use, so that the entrance listens before these slow imports."""
    if name == "Limits":
        from apviz.dashboard.limits import Limits

        return Limits
    if name == "serve":
        from apviz.dashboard.server import serve

        return serve
    raise AttributeError(f"module {__name__} has no attribute {name}")
