"""The modules of the widgets in a browser without a network, called from Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apviz.widgets.bundle import FOLDER, modules
from tests.widgets.js.pages import open_page, page_of

#: modules with mathematics
GEOMETRY = (
    "algebra.js", "kernels.js", "span.js", "trajectory.js", "step_geometry.js", "two_blocks.js", "block_spectrum.js",
    "space.js", "draws.js", "partitions.js", "photograph_solver.js", "borders.js", "packing.js",
    "spectra.js", "kappas.js", "eigen_path.js", "cg_against_projection.js", "rule_comparison.js",
    "zigzag.js", "positive_definite.js", "sample_paths.js", "forecast.js", "krylov.js", "early_stopping.js",
)  # fmt: skip

#: situation by situation, arrays as lists
ANSWER = """([name, situations]) => JSON.stringify(
    situations.map((each) => geometry[name](each)),
    (key, value) => value instanceof Float64Array ? [...value] : Number.isNaN(value) ? "NaN" : value
)"""


@pytest.fixture(scope="module")
def compute(browser: Any) -> Iterator[Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]]:
    """Call a function of `geometry.js` for each of several situations."""
    tab = browser.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    scripts = [f'(() => {{ {modules(name)} Object.assign(here, modules["{name}"]); }})();\n' for name in GEOMETRY]
    functions = Path(__file__).with_name("geometry.js").read_text("utf-8")
    tab.add_script_tag(content=f"const here = {{}};\n{''.join(scripts)}const geometry = {functions.strip()};")

    def call(name: str, situations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        plain = json.loads(json.dumps(situations, default=np.ndarray.tolist))
        found = json.loads(tab.evaluate(ANSWER, [name, plain]))
        return [_numbers(each) for each in found]

    yield call
    tab.close()
    assert problems == [] and all((FOLDER / name).is_file() for name in GEOMETRY)


def _numbers(value: Any) -> Any:
    """Convert to numbers, including NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return np.nan if value == "NaN" else value


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open the page of a widget; it must have no errors and request nothing from other hosts."""
    problems: list[str] = []
    contexts: list[Any] = []

    def come(widget: Any, **screen: Any) -> Any:
        # without motion, so that a picture is complete after a frame
        usual = {"viewport": {"width": 1200, "height": 1300}, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**(usual | screen)))
        return open_page(contexts[-1], page_of(widget, tmp_path / "html"), problems)

    yield come
    for each in contexts:
        each.close()
    assert problems == []
