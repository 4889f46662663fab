"""The report, as data and in a real browser."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from apviz import comparison, plots
from apviz.analysis import judge
from apviz.partitions import KDTree
from apviz.plots._labels import full_names
from apviz.report import find_traces, write_report
from apviz.report.packing import packed_figures

SLOW = pytest.mark.slow
#: height of the lowest panel of a chart
HEIGHT = """chart => Math.min(
    ...Object.entries(chart._fullLayout).filter(([key]) => /^yaxis\\d*$/.test(key)).map(([, axis]) => axis._length))"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data = apviz.datasets.load("diabetes", seed=0)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=3)
    solvers = comparison.choose_solvers(
        ["ap", "cg", "cholesky"], rules=["gauss-southwell", "cyclic"], block_sizes=[30, 90], max_epochs=5
    )
    list(comparison.compare(system, solvers, folder, comparison.Recording(data)))
    return write_report(find_traces(folder), folder / "report.html")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Write a report on the photograph: a run with snapshots, and a preconditioned one with eigenvalues."""
    folder = tmp_path_factory.mktemp("pictures")
    data = apviz.datasets.load("china", n=600, seed=0)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=2, device="cpu")
    blocks = apviz.AlternatingProjection(block_size=90, partition=KDTree(overlap=0.5), tol=1e-9, max_epochs=2)
    gradients = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50))
    apviz.solve(system, blocks, [apviz.Recorder(folder / "ap.zarr", rows=True, snapshots=range(8))])
    apviz.solve(system, gradients, [apviz.Recorder(folder / "pcg.zarr", eigenvalues=True)])
    return write_report(find_traces(folder), folder / "report.html")


def unpacked(page: Path, name: str) -> str:
    """Return a packed text of the page: plotly's script, or the parts of a chart."""
    found = re.search(rf'id="{name}">([^<]*)</script>', page.read_text("utf-8"))
    return gzip.decompress(base64.b85decode(found.group(1).replace(".", "<"))).decode()


def restored(value, columns):
    """Return a figure with its arrays instead of the places of their columns."""
    if isinstance(value, dict) and "$" in value:
        places = value["$"]
        if isinstance(places, int):
            return columns[places]
        return [list(row) for row in zip(*(columns[place] for place in places), strict=True)]
    if isinstance(value, dict):
        return {key: restored(each, columns) for key, each in value.items()}
    return [restored(each, columns) for each in value] if isinstance(value, list) else value


def embedded(page: Path, place: str, theme: str) -> dict:
    """Return the figure at a place of the page in a theme."""
    columns, *parts = json.loads(unpacked(page, f"{place}-parts"))
    light, changes = restored(parts, columns)

    def changed(value, change):
        if change is None:
            return value
        if isinstance(change, list):
            return change[0]
        keys = range(len(value)) if isinstance(value, list) else value
        both = {key: changed(value[key], change.get(str(key))) for key in keys}
        return list(both.values()) if isinstance(value, list) else both

    return changed(light, changes if theme == "dark" else None)


def charts_of(page: Path) -> list[str]:
    """Return the places of all charts."""
    return re.findall(r'class="chart" id="(chart-[\d-]+)"', page.read_text("utf-8"))


def numbers(value):
    """Replace the arrays of a figure by lists of Python's numbers."""
    if isinstance(value, dict) and "bdata" in value:
        values = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).astype(float)
        return values.reshape([int(size) for size in str(value.get("shape", len(values))).split(",")]).tolist()
    if isinstance(value, dict):
        return {key: numbers(each) for key, each in value.items()}
    return [numbers(each) for each in value] if isinstance(value, list) else value


def places_of(page: Path, heading: str) -> list[str]:
    """Return the places of the charts below headings that start with a text."""
    return re.findall(rf'<h3>{heading}[^<]*</h3>.*?id="(chart-[\d-]+)"', page.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def desk(browser, page):
    """Open the page of several runs on a desk, for tests that leave it as it was."""
    return open_page(browser, page)


@pytest.fixture(scope="module")
def phone(browser, page):
    return open_page(browser, page, 390, "dark")


@pytest.fixture
def own(browser):
    """Yield the browser of the module, and close the pages that the test opened."""
    before = list(browser.contexts)
    yield browser
    for context in browser.contexts:
        if context not in before:
            context.close()


def open_page(browser, page: Path, width: int = 1280, scheme: str = "light"):
    """Open the page offline, and collect its errors.

    An interrupted animation of Plotly rejects its promise with the reason `undefined`, which is not an error.
    """
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    tab, problems = context.new_page(), []
    tab.on("pageerror", lambda error: problems.append(str(error)) if str(error) != "undefined" else None)
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.goto(page.as_uri())
    tab.wait_for_function("[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('.main-svg'))")
    return tab, problems


def test_the_page_loads_nothing_from_other_hosts(page):
    text = page.read_text("utf-8")
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_every_chart_exists_in_both_themes_with_the_same_curves(page):
    places = charts_of(page)
    assert len(places) >= 6
    for place in places:
        light, dark = (numbers(embedded(page, place, theme)) for theme in ("light", "dark"))
        assert light["layout"]["template"] != dark["layout"]["template"]
        assert [each.get("y") for each in light["data"]] == [each.get("y") for each in dark["data"]]


def test_the_embedded_figure_equals_the_plot_to_six_digits(pictures):
    ap, pcg = sorted(find_traces(pictures.parent), key=lambda trace: trace.method.family)
    for heading, plot, trace in (("The residual as", plots.residual_image, ap), ("Eigen", plots.eigenvalues, pcg)):
        (place,) = places_of(pictures, heading)
        for theme in ("light", "dark"):
            expected = numbers(json.loads(plot(trace, theme=theme).to_json()))
            found = numbers(embedded(pictures, place, theme))
            assert is_near(found["data"], expected["data"])
            assert is_near(found.get("frames", []), expected.get("frames", []))


def is_near(found, expected) -> bool:
    """Compare nested figures, numbers to six digits; what is not finite is not drawn."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(is_near(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_near, found, expected))
    if isinstance(expected, float):
        return found is None if not np.isfinite(expected) else abs(found - expected) <= 5e-6 * abs(expected)
    return found == expected


def test_the_page_takes_at_most_3_mb_and_holds_plotly_once(page, pictures):
    for each in (page, pictures):
        assert each.stat().st_size < 3e6
        assert "Plotly" in unpacked(each, "plotly")


@pytest.mark.slow
def test_the_report_of_the_demo_takes_at_most_3_mb(tmp_path):
    # as many runs, blocks, epochs and pictured residuals as those of `make demo`, on fewer rows
    data = apviz.datasets.load("china", n=2200, seed=0)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data))
    solvers = comparison.choose_solvers(
        ["ap", "overlap", "cg", "pcg", "schwarz"], block_sizes=[40, 158], ranks=[100], max_epochs=100, tol=1e-9
    )
    list(comparison.compare(system, solvers, tmp_path, comparison.Recording(data, pictures=30)))
    traces = find_traces(tmp_path)
    report = write_report(traces, tmp_path / "report.html")
    assert sum(trace["update"].sizes["update"] for trace in traces if trace.method.block_size) > 20_000
    assert len(places_of(report, "The residual as a picture")) == 3
    assert report.stat().st_size < 3e6


def test_curves_share_columns_of_numbers_and_keep_numbers_that_lie_close_together():
    figure = {
        "data": [{"x": [4e5 + place / 8 for place in range(9)], "y": [place / 7 for place in range(9)]}],
        "layout": {"args": [4e5 + place / 8 for place in range(9)]},
    }
    dark = {**figure, "layout": {"args": [place / 7 for place in range(9)]}}
    text = packed_figures(figure, dark).replace(".", "<")
    columns, *parts = json.loads(gzip.decompress(base64.b85decode(text)))
    light, changes = restored(parts, columns)
    assert light == {**figure, "data": [{**figure["data"][0], "y": [float(f"{place / 7:.6g}") for place in range(9)]}]}
    assert len(columns) == 2 and changes == {"layout": {"args": [columns[1]]}}


def test_the_table_lists_the_best_run_first_with_the_colour_of_its_curve(page):
    traces = find_traces(page.parent)
    text = page.read_text("utf-8")
    rows = re.findall(r'<i class="swatch" style="--light: (#\w+); --dark: (#\w+);[^>]*></i>([^<]*)<', text)
    ranked = [unescape(standing.name) for standing in judge(traces, full_names(traces)).standings]
    assert [unescape(name) for *_, name in rows] == ranked
    for theme, place in (("light", 0), ("dark", 1)):
        curves = embedded(page, "chart-1-0", theme)["data"]
        assert {row[place] for row in rows} <= {curve.get("line", {}).get("color") for curve in curves}


def test_the_answer_the_residuals_and_the_table_come_before_everything_else(page):
    text = page.read_text("utf-8")
    order = [text.index(each) for each in ('class="verdict"', 'id="chart-1-0"', "<tbody>", 'id="chart-1-1"', "<dl>")]
    assert order == sorted(order) and places_of(page, "Residual")[0] == "chart-1-0"


def test_only_traces_that_recorded_them_have_pictures_and_eigenvalues(page, pictures):
    assert places_of(page, "The residual as a picture") == places_of(page, "Eigenvalues") == []
    assert len(places_of(pictures, "The residual as a picture: Overlapping projections")) == 1
    assert places_of(pictures, "The residual as a picture: CG") == []


def test_a_run_without_a_finite_residual_has_no_picture_and_does_not_spoil_the_page(pictures, tmp_path):
    (trace,) = [each for each in find_traces(pictures.parent) if "snapshot" in each]
    tree = trace.tree.copy(deep=True)
    residual = tree["snapshot"]["residual"]
    tree["snapshot"]["residual"] = residual.copy(data=np.full(residual.shape, np.inf))
    page = write_report([apviz.Trace(tree)], tmp_path / "report.html")
    assert places_of(page, "Residual") and places_of(page, "The residual as a picture") == []


def test_runs_of_two_systems_are_in_two_sections(tmp_path):
    for n in (20, 30):
        x = torch.linspace(0, 1, n)
        system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.RBF(lengthscale=0.2), noise=0.1, dataset=f"sine{n}")
        list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    text = write_report(find_traces(tmp_path), tmp_path / "report.html").read_text("utf-8")
    assert "sine20: n = 20, d = 1" in text and "sine30: n = 30, d = 1" in text


def test_an_estimated_condition_number_is_marked(tmp_path):
    for how, sign in (("subsample", "≈ "), ("exact", "")):
        recorder = apviz.Recorder(spectrum=how)
        x = torch.rand(80, 2, generator=torch.Generator().manual_seed(0))
        system = apviz.KernelSystem(x, x[:, :1], apviz.Matern52(lengthscale=0.5), noise=0.1)
        apviz.solve(system, apviz.ConjugateGradient(), [recorder])
        value = recorder.trace["spectrum"]["kappa"]
        text = unescape(write_report([recorder.trace], tmp_path / "report.html").read_text("utf-8"))
        assert re.search(rf"κ of K</\w+>\s*<\w+>{sign}{re.escape(f'{float(value):.3g}')} \(", text)


def test_the_name_of_a_data_set_cannot_inject_markup_into_the_page(tmp_path):
    x = torch.linspace(0, 1, 20)
    # `<!--<script>` would keep the next `</script>` from ending the element it is in
    system = apviz.KernelSystem(
        x, torch.sin(9 * x), apviz.RBF(lengthscale=0.2), noise=0.1, dataset="<!--<script></script><b id=x>"
    )
    list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    report = write_report(find_traces(tmp_path), tmp_path / "report.html")
    text = report.read_text("utf-8")
    assert "<b id=x>" not in text and "<!--<script>" not in text
    title = embedded(report, "chart-1-0", "light")["layout"]["title"]["text"]
    assert "<b id" not in title and "<!--<script></script><b id=x>" in unescape(unescape(title))


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), pytest.param(1920, "dark", marks=SLOW), pytest.param(390, "light", marks=SLOW), (390, "dark")],
)
def test_every_chart_renders_offline_without_errors_and_fits_the_screen(own, page, desk, phone, width, scheme):
    of_tests = {(1280, "light"): desk, (390, "dark"): phone}
    tab, problems = of_tests.get((width, scheme)) or open_page(own, page, width, scheme)
    charts = tab.locator(".chart")
    assert charts.count() >= 6
    assert tab.locator(".chart:has(.main-svg)").count() == charts.count()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    assert problems == []


def test_on_a_phone_no_chart_is_taller_than_the_screen_and_the_table_needs_no_scrolling(phone):
    tab, _ = phone
    heights = tab.locator(".chart").evaluate_all("charts => charts.map(each => each.clientHeight)")
    assert max(heights) <= 800
    assert tab.locator(".chart").first.locator(".legend").count() == 0
    panels = tab.locator(".chart").evaluate_all(f"charts => charts.map({HEIGHT})")
    assert min(panels) >= 100  # numbers along an axis do not overlap
    assert tab.evaluate("(each => each.scrollWidth <= each.clientWidth)(document.querySelector('.wide'))")


def test_without_scripts_the_page_shows_the_answer_and_the_table_and_no_empty_charts(own, page):
    tab = own.new_context(java_script_enabled=False, offline=True).new_page()
    tab.goto(page.as_uri())
    assert tab.locator(".verdict").is_visible() and tab.locator("tbody").is_visible()
    assert not tab.locator(".chart").first.is_visible()


def test_as_pdf_the_page_is_complete_and_no_chart_is_wider_than_the_paper(desk):
    pypdf = pytest.importorskip("pypdf")
    tab, _ = desk
    paper = pypdf.PdfReader(io.BytesIO(tab.pdf(format="A4")))
    text = "".join(each.extract_text() for each in paper.pages)
    assert "How to read this page" in text and "one epoch of" in text
    # the axis title and the last tick stand at the right end of the chart
    assert text.count("work (kernel entries") >= 1 and len(paper.pages) <= 14


def test_every_chart_is_drawn_again_for_paper_and_for_the_screen_after_it(desk):
    tab, problems = desk
    panels = f"() => [...document.querySelectorAll('.chart')].map(each => [each._fullLayout.width, ({HEIGHT})(each)])"
    on_screen = tab.evaluate(panels)
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    on_paper = tab.evaluate(panels)  # the paper is printed as the event ends
    assert {width for width, _ in on_paper} == {680}
    assert min(height for _, height in on_paper) >= 100
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    tab.wait_for_function(f"JSON.stringify(({panels})()) === '{json.dumps(on_screen, separators=(',', ':'))}'")
    assert problems == []


@pytest.mark.slow
def test_the_residual_chart_switches_from_work_to_seconds(own, page):
    tab, problems = open_page(own, page)
    chart = tab.locator(".chart").first
    before = chart.evaluate("chart => chart.layout.xaxis.title.text")
    chart.locator(".updatemenu-button", has_text="seconds").click()
    assert "work" in before
    tab.wait_for_function("document.querySelector('.chart').layout.xaxis.title.text.startsWith('time')")
    assert problems == []


@pytest.mark.slow
def test_no_chart_has_a_button_that_uploads_it(own, page):
    tab, _ = open_page(own, page)
    buttons = tab.locator(".chart .modebar-btn").evaluate_all("buttons => buttons.map(each => each.dataset.title)")
    assert "Download plot as a PNG" in buttons
    assert not [title for title in buttons if "hare" in title or "loud" in title]


def step(chart, number):
    """Click the slider at a step."""
    rail = chart.locator(".slider-rail-touch-rect")
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    count = chart.evaluate("chart => chart.layout.sliders[0].steps.length")
    chart.page.mouse.click(box["x"] + 10 + (box["width"] - 20) * number / (count - 1), box["y"] + box["height"] / 2)


def frames_of(page: Path):
    (trace,) = [each for each in find_traces(page.parent) if "snapshot" in each]
    return plots.residual_image(trace).frames


def wait_until_shown(chart, frame, label):
    """Wait until the line above the slider begins with the label and the picture is that of the frame."""
    chart.page.wait_for_function(
        """([chart, label, expected]) => {
            const {x, y} = chart._fullData[0], z = chart.calcdata[0][0].z;
            return chart.querySelector(".slider-label").textContent.startsWith(label)
                && expected.every((value, row) => z[y[row]][x[row]] === value);
        }""",
        arg=[chart.element_handle(), label, frame.data[0].z.tolist()],
    )


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=SLOW), (390, "dark")])
def test_the_slider_updates_the_picture_even_after_a_change_of_theme(own, pictures, width, scheme):
    tab, problems = open_page(own, pictures, width, scheme)
    frames = frames_of(pictures)
    chart = tab.locator(".chart:has(.slider-rail-touch-rect)")
    step(chart, 3)
    wait_until_shown(chart, frames[3], "update 3:")
    tab.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    wait_until_shown(chart, frames[0], "before any update")
    step(chart, 6)
    wait_until_shown(chart, frames[6], "update 6:")
    paper = chart.evaluate("chart => chart._fullLayout.paper_bgcolor")
    assert paper == plots._style.THEMES["light" if scheme == "dark" else "dark"].paper
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_play_runs_until_a_click_on_the_slider(own, pictures, width):
    tab, problems = open_page(own, pictures, width)
    chart = tab.locator(".chart:has(.slider-rail-touch-rect)")
    frames = frames_of(pictures)
    chart.locator(".updatemenu-button", has_text="play").click()
    wait_until_shown(chart, frames[2], "update 2:")
    step(chart, 7)
    wait_until_shown(chart, frames[7], "update 7:")
    assert problems == []


@pytest.mark.slow
def test_a_picture_fills_its_chart_on_a_phone_even_after_the_window_is_resized(own, pictures):
    tab, problems = open_page(own, pictures, 1280)
    chart = tab.locator(".chart:has(.slider-rail-touch-rect)")
    wide, lines = chart.bounding_box()["height"], "chart => chart.layout.title.text.split('<br>').length"
    joined = chart.evaluate(lines)
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.wait_for_function("document.querySelector('.chart')._fullLayout.width < 390")
    tab.wait_for_timeout(300)
    room, picture = chart.evaluate("chart => [chart._fullLayout._size.h, chart._fullLayout.yaxis._length]")
    assert picture > 150 and room - picture <= 3
    assert chart.evaluate(lines) > joined
    assert chart.bounding_box()["height"] < wide
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert problems == []


def test_the_table_marks_unconverged_runs(page):
    text, traces = page.read_text("utf-8"), find_traces(page.parent)
    said = re.findall(r'<td class="[^"]*\b(good|bad)">([^<]*)</td>', text)
    assert sorted(outcome == "good" for outcome, _ in said) == sorted(trace.converged for trace in traces)
    assert (
        0 < sum(words.startswith("Not converged") for _, words in said) == sum(not trace.converged for trace in traces)
    )


def test_the_verdict_on_the_runs_of_a_system_is_above_the_table(page):
    traces = find_traces(page.parent)
    text = page.read_text("utf-8")
    verdict = judge(traces, full_names(traces))
    headline = unescape(re.search(r'<p class="verdict"><b>(.*?)</b></p>', text).group(1))
    assert headline == verdict.headline and headline.startswith("Cholesky solved it in ")
    below = [unescape(each) for each in re.findall(r'<p class="reason">(.*?)</p>', text)]
    assert below == [each for each in (verdict.others, verdict.change) if each]
    assert text.index('class="verdict"') < text.index('class="reason"') < text.index("<tbody>")


def test_a_page_replaces_one_of_apviz_and_never_another_file(page, tmp_path):
    traces = find_traces(page.parent)[:1]
    (tmp_path / "report.html").write_text("<!doctype html><title>My thesis, with apviz</title>")
    assert write_report(traces, tmp_path / "report.html") == tmp_path / "report-2.html"
    assert write_report(traces, tmp_path / "report.html") == tmp_path / "report-2.html"
    assert "My thesis" in (tmp_path / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report-2.html", "report.html"]


def spoil(root, change):
    """Change the metadata of a trace."""
    found = json.loads((root / "zarr.json").read_text())
    change(found)
    (root / "zarr.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda root: root["attributes"].pop("noise"), "it has no attribute noise"),
        (lambda root: root["attributes"].update(n="many"), "its n must be int, got 'many'"),
        (lambda root: root["attributes"].update(dataset=["made"]), "its dataset must be str"),
        (
            lambda root: root["attributes"]["method"].pop("block_size"),
            "its method no block_size",
        ),
        (lambda root: root["attributes"].pop("schema_version"), "it has no schema_version"),
        (
            lambda root: root["consolidated_metadata"]["metadata"]["spectrum"]["attributes"].clear(),
            "its group spectrum has no number lambda_max_bound",
        ),
        (lambda root: root["consolidated_metadata"]["metadata"].clear(), "it has no group epoch"),
    ],
)
def test_a_trace_that_cannot_be_read_is_named_and_keeps_no_good_one_from_being_found(page, tmp_path, change, problem):
    for ending in ("cholesky", "greedy-b-30"):
        (path,) = page.parent.glob(f"*{ending}.zarr")
        shutil.copytree(path, tmp_path / path.name)
    (bad,) = tmp_path.glob("*greedy-b-30.zarr")
    spoil(bad, change)
    with pytest.warns(UserWarning, match=rf"{re.escape(bad.name)} is left out because it cannot be read: .*{problem}"):
        traces = find_traces(tmp_path)
    assert [trace.method_name for trace in traces] == ["Cholesky"]


def test_a_report_on_a_folder_without_readable_traces_raises(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with (
        pytest.warns(UserWarning, match="a.zarr is left out"),
        pytest.raises(FileNotFoundError, match="there is no trace of a solve in .* that can be read"),
    ):
        find_traces(tmp_path)


def test_a_report_describes_sums_of_kernels_and_noise_per_row(tmp_path):
    x = np.random.default_rng(0).uniform(size=(40, 2))
    kernel, noise = apviz.Matern52(lengthscale=0.3) + apviz.Linear(), np.linspace(0.1, 0.4, 40)
    system = apviz.KernelSystem(x, x[:, 0], kernel, noise=noise, device="cpu")
    apviz.solve(system, apviz.Automatic(), [apviz.Recorder(path=tmp_path / "r.zarr")])
    text = write_report([apviz.open_trace(tmp_path / "r.zarr")], tmp_path / "report.html").read_text("utf-8")
    assert "0.1 to 0.4" in text
    assert "Matern52(lengthscale=0.3, outputscale=1.0) + Linear(lengthscale=1.0, outputscale=1.0)" in text
    assert not re.search(r">lengthscale<", text)
