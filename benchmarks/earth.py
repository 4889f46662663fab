"""Solve the earth's relief at 60,000 to 1,000,000 rows: seconds, work and memory to 0.01, with everything included.

One process a size, one right-hand side, float32. The hyperparameters on the card are fitted to 2,000 rows. A million
rows show more detail, for which they are too smooth and too noisy. Every size is therefore also solved with the
hyperparameters of a fit to neighbouring rows (`DENSE`).

Goal: a million rows in under 30 minutes on 2 cores, with at most 16 GB resident.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import apviz
from apviz import comparison
from apviz.solvers import attempt
from benchmarks.machine import RESULTS, keep

SIZES = (60_000, 125_000, 250_000, 500_000, 1_000_000)
TOL = 0.01
DENSE = {"lengthscale": (0.03,), "noise": 0.025}
KINDS: dict[str, dict[str, Any]] = {"of the card": {}, "of dense rows": DENSE}
GOAL = {"n": 1_000_000, "seconds": 1800, "GB": 16}


def measure(n: int, kind: str) -> dict[str, Any]:
    """Measure one size, in a separate process."""
    warnings.simplefilter("ignore")
    data = apviz.datasets.load("earth", n=n)
    system = comparison.build_system(
        data, comparison.choose_hyperparameters(data, **KINDS[kind]), rhs=1, operator="tiled"
    )
    system.operator.prepare()
    recorder = apviz.Recorder()
    solution = attempt(system, apviz.Automatic(tol=TOL), [recorder])
    status = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    passes = recorder.trace["pass"]
    return {
        "n": n, "hyperparameters": kind, "lengthscale": system.kernel.lengthscale, "noise": system.noise,
        "outputscale": system.kernel.outputscale, "seconds": round(solution.seconds, 1),
        "work": round(solution.work, 3), "set-up seconds": round(solution.setup_seconds, 1),
        "residual": float(f"{solution.residual:.3g}"), "converged": solution.converged,
        "passes": int(passes.sizes["pass"]), "resident GB": round(peak * 1024 / 1e9, 2),
        "choices": json.loads(recorder.trace.attrs["choices"]),
    }  # fmt: skip


def chart(rows: list[dict[str, Any]]) -> None:
    """Write `results/earth.png`; needs kaleido and a browser."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind, color, symbol in zip(KINDS, ("#1F77D0", "#A83600"), ("circle", "square"), strict=True):
        of_kind = [row for row in rows if row["hyperparameters"] == kind]
        noise, scale = of_kind[0]["noise"], of_kind[0]["lengthscale"]
        about = f"lengthscale {min(scale) if isinstance(scale, tuple | list) else scale:.2g}, σ² {noise:.2g}"
        figure.add_scatter(
            x=[row["n"] for row in of_kind], y=[row["seconds"] for row in of_kind], name=f"{kind}: {about}",
            mode="lines+markers+text", line={"color": color}, marker={"size": 10, "symbol": symbol},
            text=[f"{row['seconds']:.3g} s, {row['resident GB']:.1f} GB" for row in of_kind],
            textposition="bottom right" if kind == "of dense rows" else "top left", textfont={"color": color},
        )  # fmt: skip
    figure.update_layout(
        template="plotly_white", title="The earth's relief to a residual of 0.01, 2 cores, by the hyperparameters",
        xaxis={"type": "log", "title": "training rows n", "tickvals": list(SIZES), "range": [4.6, 6.25]},
        yaxis={"type": "log", "dtick": 1, "minor": {"ticks": "inside"}, "title": "seconds, everything included"},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1}, margin={"l": 70, "t": 110, "b": 60, "r": 30},
    )  # fmt: skip
    figure.write_image(RESULTS / "earth.png", width=900, height=520, scale=1.5)


def main() -> None:
    if sys.argv[1:2] == ["--cell"]:
        print(json.dumps(measure(int(sys.argv[2]), sys.argv[3])))
        return
    rows: list[dict[str, Any]] = []
    try:
        for n in map(int, sys.argv[1:] or SIZES):
            for kind in KINDS:
                command = [sys.executable, "-m", "benchmarks.earth", "--cell", str(n), kind]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
                print({key: value for key, value in rows[-1].items() if key != "choices"}, flush=True)
    finally:  # a run that is cut keeps what it has
        keep("earth", {"rows": rows, "goal": GOAL})
    chart(rows)


if __name__ == "__main__":
    main()
