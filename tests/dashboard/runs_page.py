"""Actions and views of a visitor of the page Runs, without a browser."""

from __future__ import annotations

import time


def settle(page):
    """Tick until nothing is left to open, draw or write."""
    deadline = time.monotonic() + 120  # a busy machine is slow
    while not page.loader.is_done or page._to_draw or page.transfer.job is not None:
        assert time.monotonic() < deadline
        page.tick()
        time.sleep(0.005)


def message(page):
    return page.editor.message.object if page.editor.message.visible else ""


def press(page, label):
    (button,) = page.main().select(lambda each: getattr(each, "label", "") == label and hasattr(each, "clicks"))
    button.clicks += 1


def cell(page, name, title):
    row = next(row for row in page.table.table.rows if row[0] == name)
    return row[1 + [heading for heading, _ in page.table.table.columns].index(title)]
