"""Common properties of all live widgets, in Python."""

from __future__ import annotations

import doctest
import html
import json
import re
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

import numpy as np
import traitlets

import apviz
from apviz import widgets
from apviz.plots._style import COLORS, THEMES
from apviz.widgets import Angles, bundle
from apviz.widgets.live_widget import LIVE, STATIC, LiveWidget, log_slider, style

WIDGETS = sorted(
    (each for each in vars(widgets).values() if isinstance(each, type) and issubclass(each, LiveWidget)),
    key=lambda each: each.__name__,
)
PRESETS = [(each, preset) for each in WIDGETS for preset in each.presets]


def is_held(control: dict[str, Any], value: Any) -> bool:
    """Test whether a control can have a value: a slider snaps to the nearest of its places."""
    if control["kind"] == "switch":
        return isinstance(value, bool)
    if control["kind"] == "choice":
        return value in [each for _, each in control["options"]]
    if control["kind"] == "places":
        return value in control["places"]
    steps = (value - control["min"]) / control["step"]
    return control["min"] <= value <= control["max"] and abs(steps - round(steps)) < 1e-9


@pytest.mark.parametrize(("kind", "preset"), PRESETS, ids=[f"{kind.__name__}-{name}" for kind, name in PRESETS])
def test_a_preset_is_a_state_that_the_controls_can_be_in(kind, preset):
    widget = kind()
    widget.choose(preset)
    wanted = next(iter(kind.presets.values())) | kind.presets[preset]
    assert widget.values == wanted
    assert [name for name, control in kind.controls.items() if not is_held(control, wanted[name])] == []
    widget.reset()
    assert widget.values == next(iter(kind.presets.values()))


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_at_most_three_controls_are_visible_and_each_covers_the_range_of_its_trait(kind):
    assert len(kind.presets) >= 3 and len(kind.in_sight) + 1 <= 3  # the presets count as one
    for name, control in kind.controls.items():
        trait = kind.class_traits()[name]
        if control["kind"] == "switch":
            assert isinstance(trait, traitlets.Bool)
            continue
        if control["kind"] == "choice":
            assert [value for _, value in control["options"]] == list(trait.values)
            continue
        ends = control["places"] if control["kind"] == "places" else [control["min"], control["max"]]
        assert trait.min == min(ends) and trait.max in (max(ends), None, float("inf")), name


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_every_control_is_explained_by_one_sentence_with_a_formula(kind):
    for name, control in kind.controls.items():
        words = html.unescape(re.sub("<[^>]*>", "", control["explanation"]))
        assert re.search("[=≤≥<~∈]", words), f"{name} has no formula: {words}"
        assert words.endswith(".") and not re.search(r"[.?!]\s+[A-Z]", words), f"{name} is not one sentence: {words}"


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_the_example_gives_the_output_that_it_shows(kind):
    (example,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs={"apviz": apviz})
    assert example.examples and doctest.DocTestRunner().run(example).failed == 0


def test_invalid_values_of_a_trait_raise():
    with pytest.raises(ValueError, match="nois is not a setting of Angles; there are points, distance"):
        Angles(nois=0.1)
    with pytest.raises(ValueError, match=r"Angles: The value of the 'noise' trait .* should"):
        Angles(noise=-1.0)
    with pytest.raises(ValueError, match="preset must be one of neighbours, .*, got 'nearest'"):
        Angles().choose("nearest")
    with pytest.raises(traitlets.TraitError):
        Angles().lengthscale = 0.0


def test_python_reads_the_values_that_the_browser_sends():
    widget = Angles()
    heard = []
    widget.observe(lambda change: heard.append((change["name"], change["new"])), ["distance", "points", "shared"])
    widget.set_state({"distance": 0.44, "points": 3, "shared": 2})
    assert (widget.distance, widget.points, widget.shared) == (0.44, 3, 2) and len(heard) == 3
    assert widget.trajectory.span.n == 6


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_a_notebook_gets_the_widget_and_an_output_that_needs_no_python(kind, monkeypatch):
    shown: list[tuple[dict, dict]] = []
    monkeypatch.delenv("VSCODE_PID", raising=False)
    monkeypatch.setattr(
        "apviz.widgets.live_widget.publish_display_data",
        lambda data, metadata=None: shown.append((data, metadata or {})),
    )
    widget = kind(lecture=True)
    widget._ipython_display_()
    (live, _), (still, marked) = shown
    assert "application/vnd.jupyter.widget-view+json" in live and marked == {STATIC: widget.model_id}
    assert json.loads(json.dumps(still[LIVE]))["values"] == json.loads(json.dumps(widget.values))
    assert still[LIVE]["look"] == {"theme": "auto", "lecture": True}
    assert "apviz-static" in still["text/html"] and "http" not in still["text/html"].replace("http://www.w3.org", "")
    # the limit for the size of a page
    assert len(still["text/html"]) < 300_000
    # if outputs are separate, one has both
    shown.clear()
    monkeypatch.setenv("VSCODE_PID", "1")
    widget._ipython_display_()
    ((both, _),) = shown
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(both) and "apviz-place" in both["text/html"]


def test_colours_equal_those_of_the_figures():
    words = style()
    for name in ("gauss-southwell", "cyclic", "random", "shuffled"):
        assert f"--{name}: light-dark({COLORS[name][0]}, {COLORS[name][1]});" in words
    assert f"--ink: light-dark({THEMES['light'].ink}, {THEMES['dark'].ink});" in words


def test_a_bundle_has_each_module_once_after_its_imports_and_rejects_unknown_forms(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    (tmp_path / "a.js").write_text("/** What\n * it is. */\n// one\nexport const one = 1;\n")
    (tmp_path / "b.js").write_text(
        'import {one as first} from "./a.js";\nexport function two() { return first + 1; }\n'
    )
    (tmp_path / "c.js").write_text(
        'import {two} from "./b.js";\nimport {one} from "./a.js";\nexport const three = two() + one;\n'
    )
    text = bundle.modules("c.js")
    places = [text.index(f'modules["{name}.js"] = ') for name in "abc"]
    assert places == sorted(places) and text.count("const one = 1") == 1
    assert "const {one: first} = modules" in text and "export" not in text
    # a comment before code is kept, and so is text that looks like one
    assert "it is" not in text and "// one" not in text
    (tmp_path / "g.js").write_text('export const two = /** @type {number} */ 2;\nexport const url = "http://x";\n')
    assert "const two = /** @type {number} */ 2;" in bundle.modules("g.js") and '"http://x"' in bundle.modules("g.js")
    for body, words in (('import * as a from "./a.js";\n', "import"), ("export default 1;\n", "export")):
        (tmp_path / "d.js").write_text(body)
        with pytest.raises(ValueError, match=f"d.js: a form of import or export .* {words}"):
            bundle.modules("d.js")
    (tmp_path / "e.js").write_text('import {f} from "./f.js";\nexport const e = 1;\n')
    (tmp_path / "f.js").write_text('import {e} from "./e.js";\nexport const f = 1;\n')
    with pytest.raises(ValueError, match="circle"):
        bundle.modules("e.js")


def test_round_numbers_are_evenly_spaced_on_a_log_scale_up_to_rounding():
    values = log_slider("noise", "", 1e-3, 10).metadata["control"]["places"]
    assert len(values) == 41 and values[:3] == [0.001, 0.0012, 0.0015] and values[-1] == 10
    np.testing.assert_allclose(np.log10(values), np.linspace(-3, 1, 41), atol=0.03)
    with pytest.raises(ValueError, match=r"noise from 0.07 to 1: an end must be one of 1, 1.2, .*, ×10ᵏ"):
        log_slider("noise", "", 0.07, 1)
