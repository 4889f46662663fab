"""Draw a map of the earth's relief from random rows of it, with its standard deviations: `results/earth_map.webp`.

    python -m benchmarks.earth_map [--rows 1000000]

The map has cells of one degree, in `results/earth_map.npz`. The seconds and what is known of the error are kept in
`results/earth_map.json`. The picture needs kaleido and a browser; `--draw` draws it again.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
import torch
from plotly.subplots import make_subplots

import apviz
from apviz.datasets.loading import load_raw
from benchmarks.machine import RESULTS, keep

ROWS, TOL = 1_000_000, 1e-3
#: of dense rows, as the card of the data set says
MODEL = apviz.Hyperparameters("matern52", (0.03,), outputscale=0.64, noise=0.025)
WIDTH, HEIGHT = 1100, 1080
#: sea, coast, plains, hills, snow
LAND = [[0, "#274b73"], [0.02, "#5d8f63"], [0.15, "#a9b46c"], [0.4, "#b08a55"], [0.75, "#8c6d5e"], [1, "#ffffff"]]


def cells() -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """Return latitudes and longitudes of a map in degrees, and its cells as points of the unit sphere, (m, 3)."""
    north, east = np.arange(-89.5, 90, 1.0), np.arange(-179.5, 180, 1.0)
    latitude, longitude = np.radians(np.meshgrid(north, east, indexing="ij"))
    points = [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    return north, east, torch.from_numpy(np.stack(points, -1).reshape(-1, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--draw", action="store_true", help="draw the kept map")
    asked = parser.parse_args()
    if not asked.draw:
        compute(asked.rows)
    draw(asked.rows)


def compute(rows: int) -> None:
    """Solve for the rows, predict the cells, and keep both."""
    table = load_raw("earth")
    of = np.random.default_rng(0).permutation(len(table.target))[:rows]
    x, y, centre, scale = table.inputs[of], table.target[of], table.target[of].mean(), table.target[of].std()
    north, east, points = cells()
    started, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the accuracy is kept with the numbers
        solver = apviz.Automatic(tol=TOL)
        posterior = apviz.Posterior(x, (y - centre) / scale, MODEL, solver, dtype=torch.float32, device="cpu")
        solved = time.process_time() - started
        mean, variance = posterior.mean_and_variance(points, "neighbours")
    assert posterior.solution is not None
    found = {
        "rows": len(x), "points": len(points), "solve": round(solved, 1),
        "seconds": round(time.process_time() - started, 1), "wall": round(time.perf_counter() - wall, 1),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
        "residual": float(f"{posterior.solution.residual:.2g}"),
        "accuracy": posterior.prediction_accuracy.sentence,
    }  # fmt: skip
    keep("earth_map", found)
    shape, metres = (len(north), len(east)), {"mean": centre + scale * mean, "sd": scale * variance.sqrt()}
    kept = {name: each.reshape(shape).numpy().astype(np.float16) for name, each in metres.items()}
    np.savez_compressed(RESULTS / "earth_map.npz", north=north, east=east, **kept)


def draw(rows: int) -> None:
    """Write the picture: the map above, its standard deviations below."""
    kept = np.load(RESULTS / "earth_map.npz")
    mean, sd = (kept[name].astype(float) for name in ("mean", "sd"))
    titles = f"Height, from {rows:,} random points of the relief", "Its standard deviation: small where points are near"
    figure = make_subplots(2, 1, subplot_titles=titles, vertical_spacing=0.07)
    for row, (values, colours, unit) in enumerate([(mean, LAND, "m"), (sd, "Viridis", "m")], 1):
        bar = {"title": unit, "len": 0.45, "y": 0.78 if row == 1 else 0.22}
        limits = {"zmin": 0, "zmax": 5500} if row == 1 else {"zmin": 0, "zmax": float(np.quantile(sd, 0.995))}
        data = {"x": kept["east"], "y": kept["north"], "z": values, "colorscale": colours, "colorbar": bar}
        figure.add_heatmap(row=row, col=1, **data, **limits)
    figure.update_xaxes(title="degrees east", row=2, col=1).update_yaxes(title="degrees north")
    margin = {"l": 60, "r": 20, "t": 40, "b": 50}
    figure.update_layout(width=WIDTH, height=HEIGHT, margin=margin, template="plotly_white")
    figure.write_image(RESULTS / "earth_map.webp", scale=1)


if __name__ == "__main__":
    main()
