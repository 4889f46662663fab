"""Colours and symbols of methods, and the labels of runs in charts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr

import apviz
from apviz import plots
from apviz.method import PLAIN_CG, Method
from apviz.plots._labels import method_names, run_names, settings_labels, without_numbers
from apviz.plots._style import COLORS, OTHERS, THEMES, looks, method_color, method_symbols, rule_color

#: linear RGB as seen by a dichromat (Machado, Oliveira & Fernandes 2009, severity 1)
VISION = {
    "all three cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]
    ],
}  # fmt: skip

#: linear sRGB to CIE XYZ, and the white point D65
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = XYZ.sum(axis=1)


def linear(color):
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(color):
    return float(XYZ[1] @ linear(color))


def lab(rgb):
    """Convert linear RGB to CIELAB, in which a distance of 2.3 is just noticeable."""
    t = XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_is_unique_and_contrasts_with_the_background(theme):
    colors = [pair[theme == "dark"] for pair in (*COLORS.values(), *OTHERS)]
    assert len(set(colors)) == len(colors)
    background = luminance(THEMES[theme].paper)
    for color in colors:
        low, high = sorted([luminance(color), background])
        assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", VISION)
def test_no_two_colours_look_the_same_even_to_dichromats(vision, theme):
    seen = [lab(VISION[vision] @ linear(pair[theme == "dark"])) for pair in (*COLORS.values(), *OTHERS)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 2.3


def projection(**settings):
    return apviz.AlternatingProjection(**settings).method


def pivoted(rank):
    return apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=rank)).method


def test_a_method_keeps_its_colour_whatever_its_block_size_rank_and_share_of_overlap():
    for one, other in (
        (projection(rule="cyclic", block_size=100), projection(rule="cyclic", block_size=500)),
        (pivoted(50), pivoted(500)),
        (
            projection(partition=apviz.partitions.KDTree(overlap=0.1)),
            projection(partition=apviz.partitions.KDTree(overlap=1.0)),
        ),
    ):
        assert method_color(one) == method_color(other)


def test_the_shuffled_partition_is_not_confused_with_the_shuffled_rule():
    partition = method_color(projection(partition="shuffled"))
    assert partition == rule_color("gauss-southwell") != rule_color("shuffled")


def test_partitions_of_one_rule_differ_in_colour():
    names = ("sequential", "kd-tree", "principal-axis-tree")
    assert len({method_color(projection(partition=name)) for name in names}) == len(names)


def test_an_unknown_method_has_a_constant_colour():
    unknown = Method(family="SVGP")
    assert method_color(unknown) == method_color(Method(family="SVGP")) not in [pair[0] for pair in COLORS.values()]


def test_runs_of_one_colour_have_different_symbols():
    methods = [projection(block_size=b) for b in (100, 200, 500, 1000, 2000, 5000)]
    assert len(set(method_symbols(methods))) == len(methods)


def test_the_dash_encodes_the_block_size_for_every_method():
    methods = [projection(block_size=b, rule=rule) for rule in ("cyclic", "random") for b in (300, 100, 1000)]
    found = looks([*methods, PLAIN_CG], "light")
    assert [look.dash for look in found[:3]] == [look.dash for look in found[3:6]]
    assert len({look.dash for look in found[:3]}) == 3
    # the smallest block size, and methods without blocks, have solid lines
    assert found[1].dash == found[6].dash == "solid"
    assert len({look.color for look in found[:3]}) == 1


def test_a_single_block_size_is_a_solid_line():
    assert {
        look.dash for look in looks([projection(block_size=300), projection(rule="cyclic", block_size=300)], "light")
    } == {"solid"}


def test_blocks_of_100_and_300_look_different_in_every_chart_of_curves(runs, edited):
    large = edited(runs["ap"], attrs={"method": runs["ap"].attrs["method"] | {"block_size": 300}})
    for draw in (plots.residuals, plots.test_rmse, plots.k_norm_error, plots.passes):
        figure = draw([runs["ap"], large])
        lines = {
            each.legendgroup: each.line.dash
            for each in figure.data
            if each.mode and "lines" in each.mode and not each.fill
        }
        assert len(set(lines.values()) - {"dot", None}) == 2, draw.__name__


def test_a_symbol_does_not_depend_on_runs_of_other_methods():
    method = projection(block_size=100)
    assert method_symbols([PLAIN_CG, projection(rule="cyclic"), method])[-1] == method_symbols([method])[0]


def test_different_settings_are_stated_as_a_range(runs):
    stated = settings_labels([runs["ap"], runs["ap100"], runs["noisy"], runs["cg"]])
    assert "b = 50–100" in stated
    assert "σ² = 0.05–0.5" in stated
    assert "n = 400" in stated


def test_different_data_sets_are_listed_and_a_missing_name_is_left_out(runs, edited):
    a, b = (edited(runs["cg"], attrs={"dataset": name}) for name in ("houses", "roads"))
    assert settings_labels([a, b])[:2] == ["CG", "houses, roads"]
    unnamed = edited(runs["cg"], attrs={"dataset": ""})
    assert settings_labels([unnamed])[0] == "n = 400"


def test_for_runs_of_one_method_the_legend_states_the_different_setting_and_the_caption_the_method(runs):
    assert run_names([runs["ap"], runs["noisy"]]) == ["σ² = 0.05", "σ² = 0.5"]
    figure = plots.residuals([runs["ap"], runs["noisy"]])
    assert legend(figure)[:2] == ["σ² = 0.05 — Converged", "σ² = 0.5 — Converged"]
    assert "Alternating projection (greedy)" in figure.layout.title.text and "b = 50" in figure.layout.title.text


def test_runs_that_differ_in_their_block_size_are_named_by_it(runs):
    assert run_names([runs["ap"], runs["ap100"]]) == ["b = 50", "b = 100"]


def test_among_other_methods_a_run_is_named_by_its_method_and_its_different_setting(runs):
    assert run_names([runs["ap"], runs["noisy"], runs["cg"]]) == [
        f"{runs['ap'].method_name}, σ² = 0.05", f"{runs['ap'].method_name}, σ² = 0.5", "CG"
    ]  # fmt: skip


def test_runs_are_distinguished_by_their_seeds_and_repeats_by_their_start(runs, edited):
    begun = ["2026-01-05T10:00:00+00:00"] * 3 + ["2026-01-05T10:00:07+00:00"]
    traces = [
        edited(runs["cg"], attrs={"seed": seed, "created": when})
        for seed, when in zip((0, 1, 2, 2), begun, strict=True)
    ]
    assert run_names(traces) == ["seed 0", "seed 1", "seed 2, begun 10:00:00", "seed 2, begun 10:00:07"]


@pytest.mark.parametrize(
    ("attribute", "values", "names"),
    [
        ("lengthscale", ([0.2], [0.1, 0.9]), ["ℓ = 0.2", "ℓ = 0.1–0.9"]),
        ("dtype", ("float32", "float64"), ["float32", "float64"]),
        ("solver_settings", ('{"max_epochs": 5}', '{"max_epochs": 9}'), ["max epochs 5", "max epochs 9"]),
        ("threads", (1, 2), ["threads 1", "threads 2"]),
    ],
)
def test_any_different_setting_distinguishes_runs(runs, edited, attribute, values, names):
    assert run_names([edited(runs["cg"], attrs={attribute: value}) for value in values]) == names


def test_no_legend_says_run_3_and_even_identical_runs_have_unique_names(runs):
    names = run_names([runs["cg"]] * 3)
    assert len(set(names)) == 3 and not any("run" in name for name in names)
    assert [name.partition(" (")[2] for name in names] == ["1 of 3)", "2 of 3)", "3 of 3)"]


def test_names_of_three_hundred_runs_are_found_quickly(runs, edited):
    attrs = [{"seed": seed, "noise": 0.1 * noise} for seed in range(60) for noise in range(1, 6)]
    tree = runs["cg"].tree
    traces = [apviz.Trace(xr.DataTree.from_dict({"/": xr.Dataset(attrs=tree.attrs | each)})) for each in attrs]
    assert len(set(run_names(traces))) == 300


def legend(figure):
    return [each.name for each in figure.data if each.name and each.showlegend is not False]


def test_a_table_names_precision_and_seed_if_they_differ(runs, edited):
    cg, ap = edited(runs["cg"], attrs={"dtype": "float64", "seed": 0}), edited(runs["ap"], attrs={"seed": 0})
    single = edited(cg, attrs={"dtype": "float32"})
    label = ap.method_name
    assert method_names([single, ap]) == ["CG", label]
    assert method_names([single, cg, ap]) == ["CG, float32", "CG, float64", f"{label}, {ap.attrs['dtype']}"]
    by_auto = edited(single, attrs={"choices": '{"method": "CG: it is short"}'})
    assert method_names([single, by_auto, ap]) == ["CG, as set", "CG, chosen by apviz", label]
    assert run_names([single, by_auto, ap])[:2] == ["CG, as set", "CG, chosen by apviz"]
    assert method_names([by_auto, by_auto]) == ["CG", "CG"]
    assert method_names([single, edited(single, attrs={"seed": 3})]) == ["CG, seed 0", "CG, seed 3"]


def test_every_legend_entry_is_unique(runs):
    figure = plots.residuals([*runs.values(), runs["cg"]])
    named = [each.name for each in figure.data if each.showlegend is not False]
    assert all(a != b for a, b in itertools.combinations(named, 2))


def test_the_name_of_a_data_set_is_text_and_not_markup(runs, edited):
    run = edited(runs["cg"], attrs={"dataset": "a<b>c"})
    assert "a&lt;b&gt;c" in plots.residuals(run).layout.title.text


def test_a_training_by_overlapping_blocks_has_the_colour_of_its_solves_before_the_overlap_is_chosen():
    method = projection(block_size="auto", partition=apviz.partitions.PrincipalAxisTree(overlap="auto"))
    solved = projection(block_size=100, partition=apviz.partitions.PrincipalAxisTree(overlap=0.5))
    assert method_color(method) == method_color(solved) not in (method_color(PLAIN_CG), rule_color("gauss-southwell"))


def test_a_caption_names_the_kernels_of_a_sum_without_their_numbers():
    kernel = 2.0 * apviz.Matern52(lengthscale=(0.3, 1e-3)).on([0, 1]) + apviz.Periodic().on(0) * (
        apviz.Linear() + apviz.White(outputscale=0.1)
    )
    assert without_numbers(repr(kernel)) == "Matern52 + Periodic × (Linear + White)"
    x = np.random.default_rng(0).uniform(size=(30, 2))
    recorder = apviz.Recorder()
    apviz.solve(apviz.KernelSystem(x, x[:, 0], kernel, noise=0.1, device="cpu"), apviz.Automatic(), [recorder])
    assert "Matern52 + Periodic × (Linear + White)" in settings_labels([recorder.trace])
