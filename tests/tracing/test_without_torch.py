"""A trace can be read without torch, for example on a laptop that only shows the runs of a server."""

from __future__ import annotations

import subprocess
import sys

import apviz

READS = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "gpytorch", "linear_operator", "pykeops"):
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Absent())
import apviz
trace = apviz.open_trace(sys.argv[1])
print(trace.method.family, int(trace["epoch"]["epoch"][-1]), apviz.diagnose(trace).limit.name)
print(float(apviz.analysis.k_norm_error(trace)["upper"][0]) > 0)
"""


def test_a_trace_is_opened_and_diagnosed_and_its_error_is_computed_without_torch(tmp_path):
    x = [[0.1 * i] for i in range(20)]
    system = apviz.KernelSystem(x, [row[0] ** 2 for row in x], apviz.RBF(lengthscale=0.3), noise=0.1, device="cpu")
    solver = apviz.AlternatingProjection(block_size=5)
    solution = apviz.solve(system, solver, hooks=[apviz.Recorder(tmp_path / "run.zarr")])
    done = subprocess.run([sys.executable, "-c", READS, tmp_path / "run.zarr"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    family, epochs, limit, positive = done.stdout.split()
    assert (family, int(epochs), positive) == (solver.method.family, solution.epochs, "True")
    assert limit == apviz.diagnose(apviz.open_trace(tmp_path / "run.zarr")).limit.name
