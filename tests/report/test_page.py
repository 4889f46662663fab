"""The report, as data and in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import apviz
from apviz import comparison
from apviz.report import find_traces, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data = apviz.datasets.load("diabetes", seed=0)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=3)
    solvers = comparison.choose_solvers(
        ["ap", "cg", "cholesky"], rules=["gauss-southwell", "cyclic"], block_sizes=[30, 90], max_epochs=5
    )
    list(comparison.compare(system, solvers, folder, data=data))
    return write_report(find_traces(folder), folder / "report.html")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


def open_page(browser, page: Path, width: int = 1280, scheme: str = "light"):
    """The page with the network off, and what it complained about."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    tab, problems = context.new_page(), []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.goto(page.as_uri())
    tab.wait_for_selector(".chart .main-svg")
    return tab, problems


def test_the_page_loads_nothing_from_elsewhere(page):
    text = page.read_text("utf-8")
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_every_chart_is_there_in_both_themes_as_valid_json(page):
    text = page.read_text("utf-8")
    found = re.findall(r'<script type="application/json" data-theme="(\w+)" data-for="([\w-]+)">(.*?)</script>', text)
    charts = {(theme, place): json.loads(figure) for theme, place, figure in found}
    places = {place for _, place in charts}
    assert len(places) >= 6
    assert all((theme, place) in charts for theme in ("light", "dark") for place in places)


def test_runs_of_two_systems_are_in_two_sections(tmp_path):
    for n in (20, 30):
        x = torch.linspace(0, 1, n)
        system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.RBF(0.2), 0.1, dataset=f"sine{n}")
        list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    text = write_report(find_traces(tmp_path), tmp_path / "report.html").read_text("utf-8")
    assert "sine20: n = 20, d = 1" in text and "sine30: n = 30, d = 1" in text


def test_a_data_set_name_cannot_put_markup_into_the_page(tmp_path):
    x = torch.linspace(0, 1, 20)
    system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.RBF(0.2), 0.1, dataset="</script><b id=x>")
    list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    text = write_report(find_traces(tmp_path), tmp_path / "report.html").read_text("utf-8")
    assert "<b id=x>" not in text


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1920, "dark"), (390, "light"), (390, "dark")])
def test_every_chart_is_drawn_offline_without_errors_and_fits_the_screen(browser, page, width, scheme):
    tab, problems = open_page(browser, page, width, scheme)
    charts = tab.locator(".chart")
    assert charts.count() >= 6
    assert tab.locator(".chart:has(.main-svg)").count() == charts.count()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    assert problems == []


def test_the_residual_chart_switches_from_work_to_seconds(browser, page):
    tab, problems = open_page(browser, page)
    chart = tab.locator(".chart").first
    before = chart.evaluate("chart => chart.layout.xaxis.title.text")
    chart.locator(".updatemenu-button", has_text="seconds").click()
    tab.wait_for_timeout(300)
    after = chart.evaluate("chart => chart.layout.xaxis.title.text")
    assert "work" in before and "time" in after
    assert problems == []


def test_the_table_says_which_runs_did_not_converge(browser, page):
    tab, _ = open_page(browser, page)
    traces = find_traces(page.parent)
    failed = sum(not trace.converged for trace in traces)
    assert failed > 0
    assert tab.locator("td.bad").count() == failed
    assert tab.locator("td.good").count() == len(traces) - failed
