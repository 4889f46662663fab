"""Page of predictions on a grid: the charts, and how the numbers were made."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import xarray as xr

from apviz.plots.models.prediction import prediction
from apviz.report.rendering import embedded, write_page


def write_surface_page(predictions: xr.Dataset, path: Path) -> Path:
    """Write a page with the charts of predictions over one or two inputs; return its path.

    Another file of this name is not replaced; the page gets another name.
    """
    figures = []
    for name in ("mean", "sd"):
        if name in predictions:
            text = str(predictions[name].attrs["long_name"])
            if name == "mean" and "lower" in predictions and len(predictions.sizes) == 1:
                text += ", with its interval"
            figures.append(embedded(name, f"{text[0].upper()}{text[1:]}.", partial(prediction, predictions, name)))
    facts = {name.replace("_", " "): str(value) for name, value in predictions.attrs.items() if name != "title"}
    return write_page(path, "surface.html.jinja", title=predictions.attrs["title"], facts_=facts, figures=figures)
