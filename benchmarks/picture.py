"""The README's picture: the residual chart of `make demo`'s traces in runs/demo. Needs kaleido and a browser."""

from __future__ import annotations

from pathlib import Path

from apviz import plots
from apviz.report import find_traces
from benchmarks.machine import RESULTS


def main() -> None:
    figure = plots.residuals(find_traces(Path("runs/demo")), x="work")
    figure.layout.updatemenus = ()  # buttons do nothing in a picture
    figure.write_image(RESULTS / "picture.png", width=1100, height=620, scale=1.5)


if __name__ == "__main__":
    main()
