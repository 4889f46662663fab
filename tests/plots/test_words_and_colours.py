"""Method colours and symbols, and what charts say in words."""

from __future__ import annotations

import itertools

import pytest

import apviz
from apviz import plots
from apviz.plots._labels import method_names, run_names, statement
from apviz.plots._style import COLORS, OTHERS, THEMES, method_color, method_symbols, partition_color

LABELS = {
    "AP gauss-southwell b=1000": "gauss-southwell",
    "AP gauss-southwell kd-tree +10% b=500": "AP overlapping",
    "AP cyclic pa-tree +100% b=500 q=9": "AP overlapping",
    "AP gauss-southwell shuffled b=500": "gauss-southwell",
    "AP gauss-southwell kd-tree b=500": "AP kd-tree",
    "AP gauss-southwell pa-tree b=500 q=9": "AP pa-tree",
    "AP cyclic kd-tree b=500": "cyclic",
    "AP cyclic b=1000": "cyclic",
    "AP random b=1000": "random",
    "AP shuffled b=1000": "shuffled",
    "CG": "CG",
    "PCG r=500": "PCG",
    "PCG randomly pivoted r=500": "PCG randomly pivoted",
    "PCG Schwarz b=400 +100% r=200": "PCG two-level",
    "PCG two-level b=100": "PCG two-level",
    "Cholesky": "Cholesky",
}


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("label", LABELS)
def test_the_colour_of_a_method_follows_from_its_label(label, theme):
    assert method_color(label, theme) == COLORS[LABELS[label]][theme == "dark"]


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_is_its_own_and_has_contrast_with_the_background(theme):
    colors = [pair[theme == "dark"] for pair in (*COLORS.values(), *OTHERS)]
    assert len(set(colors)) == len(colors)
    background = luminance(THEMES[theme].paper)
    for color in colors:
        low, high = sorted([luminance(color), background])
        assert (high + 0.05) / (low + 0.05) >= 3


def test_partitions_of_one_rule_differ_in_colour_as_they_do_where_the_partition_alone_is_drawn():
    for name, label in (("sequential", ""), ("kd-tree", " kd-tree"), ("principal-axis-tree", " pa-tree")):
        assert method_color(f"AP gauss-southwell{label} b=100") == partition_color(name)


def test_an_unknown_method_has_a_colour_that_stays():
    assert method_color("SVGP m=1024") == method_color("SVGP m=1024") not in [pair[0] for pair in COLORS.values()]


def test_runs_of_one_colour_differ_in_their_symbol():
    labels = [f"AP gauss-southwell b={b}" for b in (100, 200, 500, 1000, 2000, 5000)]
    assert len(set(method_symbols(labels))) == len(labels)


def test_a_symbol_does_not_depend_on_runs_of_other_methods():
    label = "AP gauss-southwell b=100"
    assert method_symbols(["CG", "AP cyclic b=100", label])[-1] == method_symbols([label])[0]


def test_settings_that_differ_are_stated_as_a_range(runs):
    stated = statement([runs["ap"], runs["ap100"], runs["noisy"], runs["cg"]])
    assert "b = 50–100" in stated
    assert "σ² = 0.05–0.5" in stated
    assert "n = 400" in stated


def test_data_sets_that_differ_are_listed_and_a_missing_name_is_left_out(runs, edited):
    a, b = (edited(runs["cg"], attrs={"dataset": name}) for name in ("houses", "roads"))
    assert statement([a, b])[0] == "houses, roads"
    unnamed = edited(runs["cg"], attrs={"dataset": ""})
    assert statement([unnamed])[0] == "n = 400"


def test_runs_of_one_method_are_told_apart_by_the_setting_that_differs(runs):
    first, second = run_names([runs["ap"], runs["noisy"]])
    assert first.endswith(", σ² = 0.05")
    assert second.endswith(", σ² = 0.5")


def test_identical_runs_are_numbered(runs):
    assert run_names([runs["cg"], runs["cg"]]) == ["CG, run 1", "CG, run 2"]


def test_runs_of_several_seeds_are_told_apart_by_them_also_where_one_was_repeated(runs, edited):
    traces = [edited(runs["cg"], attrs={"seed": seed}) for seed in (0, 1, 2, 2)]
    assert run_names(traces) == ["CG, seed 0", "CG, seed 1", "CG, seed 2, run 1", "CG, seed 2, run 2"]


def test_a_table_names_precision_and_seed_where_they_differ(runs, edited):
    cg, ap = edited(runs["cg"], attrs={"dtype": "float64", "seed": 0}), edited(runs["ap"], attrs={"seed": 0})
    single = edited(cg, attrs={"dtype": "float32"})
    label = ap.label.partition(" b=")[0]
    assert method_names([single, ap]) == ["CG", label]
    assert method_names([single, cg, ap]) == ["CG, float32", "CG, float64", f"{label}, {ap.attrs['dtype']}"]
    assert method_names([single, edited(single, attrs={"seed": 3})]) == ["CG, seed 0", "CG, seed 3"]


def test_every_legend_entry_is_its_own(runs):
    figure = plots.residuals([*runs.values(), runs["cg"]])
    named = [each.name for each in figure.data if each.showlegend is not False]
    assert all(a != b for a, b in itertools.combinations(named, 2))


def test_a_data_set_name_is_text_and_not_markup(runs, edited):
    run = edited(runs["cg"], attrs={"dataset": "a<b>c"})
    assert "a&lt;b&gt;c" in plots.residuals(run).layout.title.text


def test_a_training_by_overlapping_blocks_has_the_colour_of_its_solves_before_the_overlap_is_chosen():
    label = apviz.AlternatingProjection(block_size="auto", partition="principal-axis-tree", overlap="auto").label
    assert plots.method_color(label) == plots.method_color(label.replace("+auto", "+50%")) != plots.method_color("CG")
    assert plots.method_color(label) != plots.method_color("AP gauss-southwell b=100")
