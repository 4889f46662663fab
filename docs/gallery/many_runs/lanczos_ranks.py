"""
The rank of Lanczos variances
=============================

Test likelihood by the rank of the predicted variances, and that of variances by solves; the experiment records it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import apviz
from apviz import experiments

with TemporaryDirectory() as folder:
    options = experiments.Options(n=250, dataset="diabetes", out=Path(folder))
    for cell, row in experiments.run(experiments.EXPERIMENTS["lanczos-rank"], options):
        print(f"{cell.key}: {row['nll_by_solves']:.3f} by solves")
    (path,) = Path(folder).rglob("*.zarr")
    trace = apviz.open_trace(path)
figure = apviz.plots.lanczos_ranks(trace)
