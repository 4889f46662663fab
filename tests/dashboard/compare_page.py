"""The page Compare of a folder of small real runs, without a browser."""

from __future__ import annotations

import html

from apviz.dashboard.pages.compare.page import Compare
from tests.dashboard.visiting import drawn, visitor

#: a solve that runs until it is stopped
ENDLESS = {"methods": ["ap"], "rules": ["cyclic"], "block_sizes": [20], "tol": 1e-14, "max_epochs": 100_000}


def page_in(folder, **system):
    """Return a page of a folder that is not open yet."""
    page = Compare(visitor(folder, **system))
    page.main()
    return page


def opened(folder, **view):
    """Return an open page with drawn charts."""
    page = page_in(folder)
    page.choice.param.update(**{"more": True, "x": "work", "scale": "linear"} | view)
    page.open()
    return drawn(page)


def message(page):
    """Return the text of the bar with the buttons."""
    return page._bar._text.object


def answer(page):
    """Return the sentences of the verdict."""
    return html.unescape(f"{page._answer._headline.object} {page._answer._rest.object}").replace("\\", "")


def said(page):
    """Return what the yellow bar says of settings."""
    page.show_differences()
    return page.notice.said if page.notice.view.visible else []
