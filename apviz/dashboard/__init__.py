"""The dashboard: a Panel app on the library. No mathematics here.

The rooms; arrows between them point one way:

- `charts/`: one figure of `apviz.plots` on a page, its moments, the player. Knows no other room.
- `runs/`: what is kept in the folder of runs, and the tables of it. Knows no other room.
- `settings/`: what a visitor chooses, as models, plain values and widgets. Knows `runs`.
- `jobs/`: work in threads behind the server's queue, and the bar that shows how it stands. Knows `runs`, `settings`.
- `diagnosis/`: what limited a run, and the run again with one setting changed. Knows `settings`.
- `pages/`: what a visitor sees. They know all of those, and what pages have in common, but no page knows another.
- `frame/`: the server, the session of a visitor, its address and screen. Knows the pages; nobody knows it.

`limits.py` and `plain_text.py` are for all of them.
"""

from apviz.dashboard.limits import Limits
from apviz.dashboard.server import serve

__all__ = ["Limits", "serve"]
