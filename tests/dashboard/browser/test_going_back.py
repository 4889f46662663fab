"""The buttons Back and Forward: the address and the page agree at the end, and no step of the history is lost."""

from __future__ import annotations

import pytest

from apviz.dashboard.pages import PAGES

#: milliseconds without a message after which the server has answered everything
SETTLED = 1500
STEPS = ("runs", "training", "noise")


def wait_for_page(visitor, name: str) -> None:
    """Wait until the address and the selected tab name a page and stay so."""
    selected = visitor.tab.get_by_role("tab", name=PAGES[name].title, exact=True, selected=True)
    for _ in range(2):
        selected.wait_for()
        visitor.tab.wait_for_function(f"new URLSearchParams(location.search).get('page') === '{name}'")
        visitor.tab.wait_for_timeout(SETTLED)


def quickly(visitor, go: str, gap: int) -> None:
    """Press Back or Forward twice, `gap` milliseconds apart."""
    visitor.tab.evaluate("([go, gap]) => (history[go](), setTimeout(() => history[go](), gap))", [go, gap])


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0, 150])
def test_two_quick_presses_of_back_open_the_page_of_the_address_and_two_of_forward_return(visit, gap):
    someone = visit().go()
    for name in STEPS:
        someone.tab.get_by_role("tab", name=PAGES[name].title, exact=True).click()
        wait_for_page(someone, name)
    length = someone.tab.evaluate("history.length")
    for go, name in (("back", "runs"), ("forward", "noise"), ("back", "runs")):
        quickly(someone, go, gap)
        wait_for_page(someone, name)
    # the server's answer to the first press would add a step, and Forward would lead nowhere
    assert someone.tab.evaluate("history.length") == length


@pytest.mark.slow
def test_back_pressed_before_a_clicked_page_opens_opens_the_page_before(visit):
    someone = visit().go()
    someone.tab.get_by_role("tab", name=PAGES["runs"].title, exact=True).click()
    wait_for_page(someone, "runs")
    training = someone.tab.get_by_role("tab", name=PAGES["training"].title, exact=True)
    training.evaluate("tab => (tab.click(), history.back())")
    wait_for_page(someone, "compare")
    someone.tab.evaluate("history.forward()")
    wait_for_page(someone, "runs")
