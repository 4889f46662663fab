"""What is looked at on the page Runs."""

from __future__ import annotations

import param


class RunsView(param.Parameterized):
    """What is looked at."""

    filter = param.String("", label="Filter: words of name, method, data set, ending, note")
    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown together")
    selected = param.String("", label="the run that is looked at in detail")
    differences = param.Boolean(True, label="Show only differences")
