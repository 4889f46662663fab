"""Settings of the view of page Compare, which its address holds."""

from __future__ import annotations

import param

from apviz.racing import By

#: Ways to run several methods at once, and the measure of each.
RACES: dict[str, By] = {"race on work": "work", "race on seconds": "seconds"}


class CompareView(param.Parameterized):
    """Settings of the view."""

    x = param.Selector(default="seconds", objects=["seconds", "work", "epochs"], label="x axis")
    scale = param.Selector(default="log", objects=["log", "linear"], label="scale of the x axis")
    order = param.Selector(default="one by one", objects=["one by one", *RACES], label="Methods run")
    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is looked at in detail")
    pinned = param.List([], item_type=str, label="runs whose curves stand out and which are compared")
    hidden = param.List([], item_type=str, label="runs without a curve")
    more = param.Boolean(False, label="whether the other charts and the diagnosis are shown")
