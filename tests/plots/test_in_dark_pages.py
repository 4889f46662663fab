"""Pages that follow the reader's theme turn a light figure into the dark one."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("nbconvert", reason="the pages of the notebooks need JupyterLab: pip install 'apviz[notebook]'")

pytest.importorskip("latex2mathml", reason="the pages of the notebooks need latex2mathml: pip install 'apviz[docs]'")

from apviz import plots, rkhs
from apviz.kernels import Matern52
from apviz.plots._style import THEMES
from notebooks.build.pages import write_shared
from tests.plots.test_every_figure import FIGURES


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    write_shared(folder)
    tab = browser.new_page()
    tab.add_script_tag(path=folder / "page.js")
    yield tab
    tab.close()


def colors(figure: object) -> np.ndarray:
    """Return red, green and blue of all colours of a figure, in order."""
    found = re.findall(r"#[0-9a-f]{6}\b|rgba?\([^)]*\)", json.dumps(figure).lower())
    parts = ([*bytes.fromhex(each[1:])] if each[0] == "#" else re.findall(r"\d+", each)[:3] for each in found)
    return np.array([*parts], int)


def check(page, light, dark) -> None:
    mine = colors(page.evaluate("text => inDark(text)", light.to_json()))
    theirs = colors(json.loads(dark.to_json()))
    # positions on a colour scale are rounded
    assert mine.shape == theirs.shape and np.abs(mine - theirs).max() <= 1
    assert (theirs != colors(json.loads(light.to_json()))).any()


@pytest.mark.parametrize("plot", FIGURES, ids=lambda plot: plot.__name__)
def test_a_light_figure_in_dark_has_the_colours_of_the_dark_one(page, plot, runs, trainings):
    every = runs | {f"training {name}": trace for name, trace in trainings.items()}
    traces = [every[name] for name in FIGURES[plot]]
    check(page, plot(traces), plot(traces, theme="dark"))


def test_figures_of_lessons_and_buttons_get_dark_colours_too(page, runs):
    x, b = rkhs.toy_problem("even", 16)
    found = rkhs.trajectory(rkhs.Span(x, Matern52(lengthscale=0.15), 0.01), b, blocks=4, steps=12)
    check(page, plots.two_norms(found, 3), plots.two_norms(found, 3, theme="dark"))
    light = plots.residuals(runs["ap"])
    menu = page.evaluate("text => inDark(text).layout.updatemenus[0].font.color", light.to_json())
    assert menu == THEMES["dark"].button_text
