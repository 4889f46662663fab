"""Commands and snippets of the README, the guide and the benchmarks run, links work, and numbers are measured."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_diabetes

import apviz
from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
GUIDES = [ROOT / "docs" / f"{name}.md" for name in (
    "guide/index", "guide/data", "guide/methods", "guide/own_solver", "guide/gaussian_process", "guide/gpytorch",
    "guide/rescue", "guide/dashboard", "guide/reading", "guide/paper", "guide/ranks", "guide/cluster", "lessons",
)]  # fmt: skip
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *GUIDES]
README, BENCHMARKS = (path.read_text("utf-8") for path in PAGES[:2])
GUIDE = "".join(path.read_text("utf-8") for path in GUIDES)


def blocks(language: str, text: str = README + GUIDE + BENCHMARKS) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.strip().splitlines()]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_snippet_that_solves_converges_and_leaves_a_trace(tmp_path):
    (snippet,) = [block for block in blocks("python", README) if "apviz.solve" in block]
    done = run([sys.executable, "-c", snippet], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "converged" in done.stdout
    assert (tmp_path / "runs/ap.zarr/zarr.json").exists()


@pytest.mark.slow
def test_the_snippet_that_refines_reaches_its_tolerance_in_float32_by_several_passes(tmp_path):
    (snippet,) = [block for block in blocks("python", GUIDE) if "on_pass" in block]
    done = run([sys.executable, "-c", snippet + "\nassert system.dtype == __import__('torch').float32"], tmp_path)
    assert done.returncode == 0, done.stderr
    *passes, last = done.stdout.splitlines()
    assert last == "converged torch.float64" and len(passes) > 1
    found = [[float(number) for number in re.findall(r"\d\.\de-\d+", line)] for line in passes]
    assert all(residual > claimed for claimed, residual in found[:-1]) and found[-1][1] < 1e-8


@pytest.mark.slow
def test_the_snippet_that_fits_leaves_a_trace_and_a_model_that_predicts(tmp_path):
    (snippet,) = [block for block in blocks("python") if "load_diabetes" in block]
    done = run([sys.executable, "-c", snippet], tmp_path)
    assert done.returncode == 0, done.stderr
    assert 0.25 < float(done.stdout.split()[0]) < 1 and "Hyperparameters(" in done.stdout
    assert (tmp_path / "runs/training.zarr/zarr.json").exists() and (tmp_path / "runs/diabetes.npz").exists()


@pytest.mark.slow
def test_the_snippet_with_fitted_kernels_runs(tmp_path):
    (snippet,) = [block for block in blocks("python", GUIDE) if "kernel_number" in block]
    prelude = (
        "import apviz, torch\nfrom sklearn.gaussian_process.kernels import RBF, WhiteKernel\n"
        "x = torch.rand(60, 3, dtype=torch.float64)\ny = x.sum(1) + 0.1 * torch.randn(60)\n"
    )
    done = run([sys.executable, "-c", prelude + snippet], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_snippet_with_kernels_runs(tmp_path):
    (snippet,) = [block for block in blocks("python", GUIDE) if "from_sklearn" in block]
    prelude = (
        "import apviz, gpytorch, torch\nfrom sklearn.gaussian_process.kernels import RBF, WhiteKernel\n"
        "x = torch.rand(100, 3, dtype=torch.float64)\ny = x.sum(1)\n"
    )
    after = "\nassert posterior.mean(x).shape == (100,) and noise == 0.1 and kernel == apviz.RBF(lengthscale=0.5) * 2.0"
    done = run([sys.executable, "-c", prelude + snippet + after], tmp_path)
    assert done.returncode == 0, done.stderr


A_MODEL = """
import apviz, gpytorch, torch
train_x, test_x = torch.rand(1200, 2), torch.rand(5, 2)
train_y = torch.sin(6 * train_x).sum(1) + 0.1 * torch.randn(1200)

class Model(gpytorch.models.ExactGP):
    def __init__(self):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=2))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model()
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
adam = torch.optim.Adam(model.parameters(), lr=0.1)
"""


@pytest.mark.slow
def test_the_snippet_with_a_gpytorch_model_records_its_cg_then_trains_and_predicts_through_apviz(tmp_path):
    with_context = (block for block in blocks("python", GUIDE) if "gpytorch.alternating_projection(" in block)
    recorded, accurate = (block for block in with_context if "rescued" not in block)  # tests/test_guide_examples.py
    after = """
assert context.prediction_accuracy is not None
labels = [trace.method_name for trace in recorder.traces]
assert labels.count("GPyTorch CG") == 1 and len(labels) >= 51 and labels[-1] == "Cholesky", labels  # n = 1,200
truth = torch.sin(6 * test_x).sum(1)
assert (prediction.mean - truth).abs().max() < 0.3 and likelihood.noise.item() < 0.05
"""
    done = run([sys.executable, "-c", A_MODEL + recorded + accurate + after], tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_snippet_with_a_gpytorch_model_that_stalls_diagnoses_it_and_takes_a_step(tmp_path):
    (snippet,) = [block for block in blocks("python", README) if "apviz.gpytorch" in block]
    after = "\nassert prediction.mean.shape == (5,) and all(p.grad is not None for p in model.parameters())"
    done = run([sys.executable, "-c", A_MODEL + snippet + after], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No problem found" in done.stdout, done.stdout


# except the example solvers of the guide
SHORT = [snippet for snippet in blocks("python") if not re.search("class (HeavyBall|Mine)", snippet)]


@pytest.mark.parametrize("snippet", SHORT)
def test_a_python_snippet_has_at_most_ten_lines(snippet):
    assert len([line for line in snippet.splitlines() if line and not line.startswith(("import", "from"))]) <= 10


@pytest.mark.slow
def test_the_apviz_commands_run_in_order(tmp_path):
    houses = pd.DataFrame(load_diabetes(as_frame=True).frame).rename(columns={"target": "price"})
    houses.to_csv(tmp_path / "houses.csv", index=False)
    depth = houses.head(100).assign(east=range(0, 500, 5), north=[7 * k % 101 for k in range(100)], z=houses["price"])
    for name, columns in (("depth.csv", ["east", "north", "z"]), ("grid.csv", ["north", "east"])):
        depth[columns].to_csv(tmp_path / name, index=False)
    # a dashboard runs until it is stopped, and is started by other tests
    ends = [line for line in commands() if line.startswith("apviz") and not line.startswith("apviz dashboard")]
    wanted = [shlex.split(line) for line in ends if "--scheduler" not in line]
    assert len(wanted) == 13
    for command in wanted:
        done = run([sys.executable, "-m", "apviz", *command[1:]], tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "runs/diabetes/report.html").stat().st_size > 1_000_000
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 100 and (tmp_path / "surface.html").exists()


@pytest.mark.slow
def test_the_commands_on_many_ranks_run_and_their_traces_record_it(tmp_path):
    """The script of the guide is `solve.py`."""
    ranks = (ROOT / "docs/guide/ranks.md").read_text()
    (snippet,) = [block for block in blocks("python", ranks) if "distributed.init" in block]
    (tmp_path / "solve.py").write_text(snippet)
    wanted = [shlex.split(line) for line in "\n".join(blocks("sh", ranks)).splitlines() if line.startswith("torchrun")]
    assert len(wanted) == 2
    for command in wanted:
        done = run([sys.executable, "-m", "torch.distributed.run", "--standalone", *command[1:]], tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    traces = [apviz.open_trace(path) for path in tmp_path.glob("runs/**/*.zarr")]
    assert len(traces) >= 4 and {trace.attrs["ranks"] for trace in traces} == {2}
    assert (tmp_path / "runs/ranks/report.html").exists() and (tmp_path / "runs/china.weights.npz").exists()


@pytest.mark.slow
def test_the_commands_of_a_cluster_start_it_compare_and_compute_an_experiment(tmp_path):
    port = free_port()
    (block,) = blocks("sh", (ROOT / "docs/guide/cluster.md").read_text("utf-8"))
    lines = block.replace("node1:8786", f"127.0.0.1:{port}").splitlines()
    scheduler, worker, *wanted = [shlex.split(line) for line in lines]
    assert scheduler == ["dask", "scheduler"] and worker[:2] == ["dask", "worker"] and len(wanted) == 3
    servers = []
    try:
        for words in ([*scheduler[1:], "--host", "127.0.0.1", "--port", str(port)], worker[1:], worker[1:]):
            command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
            servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            while not has_listener(port):
                assert servers[0].poll() is None
        for command in wanted:
            done = run([sys.executable, "-m", "apviz", *command[1:]], tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    finally:
        for server in reversed(servers):
            server.terminate()
            server.wait(60)
    assert len(list((tmp_path / "runs/cluster").glob("*.zarr"))) == 9 + 7
    assert (tmp_path / "runs/cluster/report.html").exists()
    assert (tmp_path / "runs/experiments/rules-n500-china/report.html").exists()


def has_listener(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_the_snippet_with_a_cluster_compares_methods_on_it(tmp_path):
    (snippet,) = [block for block in blocks("python", GUIDE) if "apviz.cluster" in block]
    (tmp_path / "compared.py").write_text(snippet)
    done = run([sys.executable, "compared.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Trace(") == 8 and len(list((tmp_path / "runs/cluster").glob("*.zarr"))) == 8


def test_the_make_commands_are_targets_of_the_makefile():
    made = [line.split()[1] for line in commands() if line.startswith("make")]
    assert made == ["demo", "test", "dashboard", "lab", "notebooks", "lite", "bench"]
    named = re.findall(r"`make ([a-z-]+)", README + GUIDE + BENCHMARKS)
    for target in {*made, *named}:
        done = run(["make", "--dry-run", target], ROOT)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[str, Path]:
    """Run the commands of `make demo` after the install, with a folder of their own."""
    printed = run(["make", "--dry-run", "demo"], ROOT).stdout
    (line,) = [line for line in printed.replace("\\\n", "").splitlines() if " compare " in line]
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "apviz", *shlex.split(line)[1:]]
    command[command.index("--out") + 1] = str(out)
    done = run(command, ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout, out


@pytest.mark.slow
def test_make_demo_compares_three_rules_at_two_block_sizes_with_cg_pcg_and_what_goes_beyond_the_paper(demo):
    table, out = demo
    assert len(list(out.glob("*.zarr"))) == 3 * 2 + 2 + 2
    for method in ("greedy", "cyclic", "random", "CG", "CG + pivoted", "CG + two-level", "Overlapping", "50% overlap"):
        assert method in table
    assert (out / "report.html").exists()


def test_the_readme_starts_with_a_picture_two_commands_and_a_solve():
    assert README.index("![") < README.index("```sh") < README.index("```python") < 1_500
    assert "apviz.solve" in blocks("python", README)[0]
    assert [line for block in blocks("sh", README) for line in block.splitlines()][:2] == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_every_relative_link_leads_to_a_file():
    others = ("ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/notes.md", "docs/mathematics.md", "docs/api/index.md")
    for page in [*PAGES, *(ROOT / name for name in others)]:
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        for target in targets:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


#: a package index shows the README without the repository around it
ADDRESS = re.compile(r"https://(github|raw\.githubusercontent)\.com/apviz/apviz/(?:(blob|tree)/)?main/([^\s)#\"]+)")


def test_every_link_of_the_readme_is_absolute_and_a_picture_is_raw():
    targets = re.findall(r"\]\(([^)]*)\)|^\[[^\]]+\]: (\S+)", README, re.MULTILINE)
    assert len(targets) > 15 and all((inline or named).startswith("https://") for inline, named in targets)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", README)
    assert pictures and all(ADDRESS.fullmatch(each)[1] == "raw.githubusercontent" for each in pictures)


def test_every_address_of_the_repository_belongs_to_an_existing_file():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.yml"), ROOT / "pyproject.toml"]
    found = [(page.name, match) for page in pages for match in ADDRESS.finditer(page.read_text("utf-8"))]
    assert len(found) > 10
    for name, match in found:
        path = ROOT / match[3]
        assert path.is_dir() if match[2] == "tree" else path.is_file(), f"{name}: {match[0]}"


def test_the_animation_is_small_and_stops_at_its_last_frame():
    with Image.open(ROOT / "benchmarks/results/animation.webp") as picture:
        assert 30 <= picture.n_frames <= 60
    assert (ROOT / "benchmarks/results/animation.webp").stat().st_size < 1_000_000


@pytest.mark.slow
def test_the_residuals_below_the_animation_match_its_solves():
    from benchmarks import animation

    ends = {name: steps[-1].relative for name, steps in animation.both()[0].items()}
    scattered, neighbours = ends.values()
    said = " ".join(README.split())
    assert f"After {animation.UPDATES} updates the residual is {100 * scattered:.1f}% with scattered blocks" in said
    assert f"and {100 * neighbours:.1f}% with overlapping blocks of neighbours" in said


def test_the_table_of_the_benchmarks_matches_the_results():
    from benchmarks.table import MARKS, README, smaller_tolerances, table

    assert PAGES[1] == README
    shown = BENCHMARKS.partition(MARKS[0])[2].partition(MARKS[1])[0].strip()
    assert shown.startswith(table()) and shown.endswith(smaller_tolerances())


def test_statements_of_the_readme_about_speed_are_in_the_table():
    from benchmarks.table import OTHER_CG, by_auto, gpytorch_ratio, ratio, results

    rows = [one for one in results() if 13_000 < one["n"] < 15_000 and one["right-hand sides"] == 16]
    said = " ".join(README.split())
    assert len(rows) == 7 and "On seven systems of about 14,000 rows and 16 right-hand sides" in said
    seconds = sorted(by_auto(one, "seconds") for one in rows)
    assert all(done for _, done in seconds)
    assert f"0.01 after {seconds[0][0]:.1f} to {seconds[-1][0]:.1f} s on two cores" in said
    others = sorted(float(ratio(one, OTHER_CG, "seconds").rstrip("×")) for one in rows)
    assert f"The best other CG takes {others[0]:.1f} to {others[-1]:.1f} times as long" in said
    gpytorch = min(float(gpytorch_ratio(one).lstrip("≥> ").rstrip("×")) for one in rows)
    assert f"at least {int(gpytorch)} times" in said
    cholesky = sorted(
        one["cells"]["Cholesky"]["reached"]["0.01"]["seconds"] / by_auto(one, "seconds")[0] for one in rows
    )
    assert f"Cholesky {cholesky[0]:.1f} to {cholesky[-1]:.0f} times" in said
