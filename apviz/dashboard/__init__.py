"""The dashboard: a Panel app on the library. No mathematics here.

The rooms; a room knows only those below it, and import-linter sees to it:

- `entrance`: who may come, and what answers before the rest is imported. `server`, `session`: the server, and one
  visitor with address and pages.
- `pages/`: what a visitor sees. They share what is in `pages.base`; no page knows another.
- `jobs/`: work in threads, so many at once, and the bar that shows how it stands. `first_runs`: what a new folder
  of runs begins with.
- `settings/`: what a visitor chooses, as models with their widgets and as plain values for a job.
- `components/`: one figure of `apviz.plots` on a page, the player, the cursor, the diagnosis, tables. They know traces.
- `address`: settings as text. `store/`: the runs on disk. `limits`: what one visitor may ask of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apviz.dashboard.limits import Limits
    from apviz.dashboard.server import serve

__all__ = ["Limits", "serve"]


def __getattr__(name: str) -> Any:
    """Imports these when they are asked for: the entrance listens before."""
    if name == "Limits":
        from apviz.dashboard.limits import Limits

        return Limits
    if name == "serve":
        from apviz.dashboard.server import serve

        return serve
    raise AttributeError(f"module {__name__} has no attribute {name}")
