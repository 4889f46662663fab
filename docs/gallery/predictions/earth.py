"""
A map of the earth's relief
===========================

Heights on a grid of one degree, filled in from random points of the relief, and their standard deviations.
``python -m benchmarks.earth_map`` computes the map, 64,800 cells, and writes down the seconds, the memory and the
error; it is read from its file here.
"""

from pathlib import Path

import numpy as np
import plotly.express as px

import apviz

kept = np.load(Path(apviz.__file__).parents[1] / "benchmarks" / "results" / "earth_map.npz")
land = [[0, "#274b73"], [0.02, "#5d8f63"], [0.15, "#a9b46c"], [0.4, "#b08a55"], [0.75, "#8c6d5e"], [1, "#ffffff"]]
heights = kept["mean"].astype(float).round()
figure = px.imshow(
    heights, x=kept["east"], y=kept["north"], origin="lower", zmin=0, zmax=5500, color_continuous_scale=land,
    labels={"x": "degrees east", "y": "degrees north", "color": "m"}, title="Heights filled in from random points",
    height=430, aspect="auto",
)  # fmt: skip
figure.update_layout(paper_bgcolor="rgba(0, 0, 0, 0)", font_color="grey", margin={"l": 10, "r": 10, "b": 10})
