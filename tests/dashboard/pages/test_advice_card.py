"""The card with the advised method, without a browser."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

import apviz
from apviz.advice import Advice
from apviz.advice.forecast import Band, Forecast, in_words
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages.compare.advice_card import WORK, headline
from apviz.dashboard.pages.compare.page import Compare
from apviz.dashboard.settings.systems import BY_HAND
from apviz.methods import METHODS
from tests.dashboard.visiting import visitor

CHINA = {"dataset": "china", "n": 2_400, "source": BY_HAND, "lengthscale": "0.3", "noise": 0.01, "rhs": 2}


def page_in(folder, **settings):
    page = Compare(visitor(folder, **settings))
    page.main()
    return page


def shown(page):
    """Return the sentences and columns of the card."""
    parts = [] if not len(page._advice.view) else page._advice._inside.objects
    texts = [each.object for each in parts if isinstance(getattr(each, "object", None), str)]
    tables = [each[0].object for each in parts if hasattr(each, "objects")]
    return texts, list(tables[0].columns) if tables else []


def buttons(page):
    return {each.label: each for each in page._advice._inside.objects if hasattr(each, "label")}


def asked(page):
    page._advice.ask()
    page._advice.job.join(60)
    page.tick()
    return page


def test_the_card_is_hidden_before_advice_is_requested(tmp_path):
    page = page_in(tmp_path, **CHINA)
    page.tick()
    assert not len(page._advice.view) and page._advice.button in page._bar.row.objects
    assert not page._advice.button.description, "it would replace the label as the accessible name"


def test_the_card_names_a_method_and_the_cost_of_each_and_its_button_solves(tmp_path):
    page = page_in(tmp_path, **CHINA)
    page.open()
    texts, columns = shown(asked(page))
    advice = page._advice.job.advice
    name = next(iter(advice.methods))
    assert texts[0].startswith("Which method? china: 2,400 rows, 2 inputs, the target and 1 random vector")
    assert texts[1].startswith(f"Use {name}: about ")
    assert columns == ["method", "seconds", WORK, "memory", "chance of success", "why"]
    for change in advice.alternatives:
        assert any(change.change in text or change.change.capitalize() in text for text in texts[2:])
    assert "All forecasts are estimates" in texts[-1] and not page._advice.button.disabled
    buttons(page)[f"Solve by {name}"].clicks += 1
    page.job.join(60)
    assert page.job._progress.left.likely == 0.0  # its time left came from the forecast
    (run,) = page.job.done
    page.tick()
    assert shown(page)[1][1:3] == ["seconds, forecast", "seconds, measured"]
    page.tick()
    took = f"Use {name}: it took {in_words(float(page.shared.runs.open(run)['epoch']['seconds'][-1]))}, measured."
    assert shown(page)[0][1] == took, "what was measured counts more than the estimate"
    assert any(METHODS[key].name == page.job._solvers[0].method.kind for key in page.methods.methods)
    trace = page.shared.runs.open(run)
    assert trace.converged and trace.attrs["n"] == 2_400 and trace.attrs["dataset"] == "china"


@pytest.mark.slow
def test_on_a_projector_the_table_has_three_columns(tmp_path):
    assert shown(asked(page_in(tmp_path, lecture=True, **CHINA)))[1] == ["method", "seconds", "chance of success"]


def test_a_rejected_request_is_explained_and_can_be_repeated(tmp_path):
    page = asked(page_in(tmp_path, limits=Limits(max_n=100), **CHINA))
    texts, _ = shown(page)
    assert texts[0] == "No advice" and "above this server's limit of 100 rows" in texts[1]
    assert not page._advice.button.disabled


def test_while_advice_is_computed_the_page_says_so_and_starts_no_other(tmp_path):
    page = page_in(tmp_path, **CHINA)
    with page.shared.queue.slot(page._advice):  # the only slot is busy
        page._advice.ask()
        first = page._advice.job
        page._advice.ask()
        page.tick()
        assert page._advice.job is first and page.shows(first) and page._advice.button.disabled
        assert shown(page)[0] == ["Which method?", "Queued: number 1 in line for a free solver"]
        buttons(page)["Stop"].clicks += 1
        first.join(60)
    page.tick()
    assert shown(page)[0][0] == "No advice" and first.state == "stopped"


def test_advice_from_another_tab_is_shown_when_it_is_adopted(tmp_path):
    first, second = (page_in(tmp_path, **CHINA) for _ in range(2))
    second.adopt(asked(first)._advice.job)
    second.tick()
    assert shown(second) == shown(first)


def forecast(name, seconds):
    solver = {"Cholesky": apviz.Cholesky(), "CG": apviz.ConjugateGradient()}[name]
    return Forecast(solver, Band(seconds, seconds, seconds), Band(1.0, 1.0, 1.0), 0.0, 0.99, "why")


def test_a_measured_run_beats_an_estimate_in_the_advice():
    """The page once said "Use Cholesky: about 0.05 s" below the verdict that another method took 0.12 s."""
    names = {"Cholesky": forecast("Cholesky", 0.05), "CG": forecast("CG", 0.5)}
    advice = Advice("china", 0.01, names, {}, (), 0.1)
    assert headline(advice, {}) == advice.headline
    assert headline(advice, {"CG": 0.12}) == "Measured: CG took 0.12 s. Estimated: Cholesky needs about 0.05 s."
    both = headline(advice, {"CG": 0.12, "Cholesky": 0.18})
    assert both == "Use CG: it took 0.12 s, measured. Cholesky took 0.18 s."
