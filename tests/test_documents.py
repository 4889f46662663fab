"""Names and paths in ARCHITECTURE, CONTRIBUTING and SECURITY exist, and the examples of additions work."""

from __future__ import annotations

import importlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from apviz.comparison import choose_solvers
from apviz.methods import METHODS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {name: (ROOT / name).read_text("utf-8") for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")}
#: files that CONTRIBUTING.md adds
ADDED = {"data/houses.toml"}


def prose(name: str) -> str:
    return re.sub(r"```.*?```", "", DOCUMENTS[name], flags=re.DOTALL)


def added(path: str) -> str:
    """Return the lines that an example in CONTRIBUTING.md adds to a file."""
    blocks = re.findall(r"```diff\n(.*?)```", DOCUMENTS["CONTRIBUTING.md"], re.DOTALL)
    files = [part for block in blocks for part in re.split(r"^--- .*\n\+\+\+ b/", block, flags=re.MULTILINE)[1:]]
    found = [part.splitlines()[1:] for part in files if part.splitlines()[0] == path]
    assert found and all(line.startswith("+") for lines in found for line in lines)
    return "".join(line[1:] + "\n" for lines in found for line in lines)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_in_the_documents_exists(name):
    paths = re.findall(r"`((?:apviz|tests|benchmarks|data|docs|notebooks|binder)/[\w./-]*)`", prose(name))
    assert paths
    assert [path for path in paths if path not in ADDED and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_name_of_apviz_in_the_documents_exists(name):
    for dotted in re.findall(r"`(apviz(?:\.\w+)+)", prose(name)):
        found = apviz
        for part in dotted.split(".")[1:]:
            if not hasattr(found, part):
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)


PYTHON_FILES = [path for room in ("apviz", "tests", "benchmarks", "docs") for path in (ROOT / room).rglob("*.py")]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_the_documents_say_is_in_a_file_is_there(name):
    said = re.findall(r"((?:`\w+`(?:, | and |, and )?)+)\s+(?:of|in)\s+`([\w/]*\.py)`", prose(name).replace("\n", " "))
    absent = []
    for names, file in said:
        texts = [path.read_text("utf-8") for path in PYTHON_FILES if f"/{path.as_posix()}".endswith(f"/{file}")]
        absent += [(each, file) for each in re.findall(r"`(\w+)`", names) if not any(each in text for text in texts)]
    assert absent == [] and (len(said) > 20 or name == "SECURITY.md")


@pytest.fixture
def build(monkeypatch):
    """Return a function that makes a module of an example in CONTRIBUTING.md for the duration of a test."""
    from apviz import registry

    for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "apviz"]:
        for value in vars(module).values():
            if isinstance(value, registry.Registry):
                monkeypatch.setattr(value, "_kinds", dict(value._kinds))

    def make(path: str) -> types.ModuleType:
        name = path.removesuffix(".py").replace("/", ".")
        module = types.ModuleType(name)
        if (ROOT / path).exists():  # the example extends an existing file
            module.__dict__.update(vars(importlib.import_module(name)))
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(added(path), path, "exec"), vars(module))
        return module

    return make


@pytest.fixture
def system():
    x = torch.rand(60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    b = torch.stack([torch.sin(5 * x).sum(1), x[:, 0] - 0.5], 1)
    kernel = apviz.Matern52(lengthscale=0.3)
    return apviz.KernelSystem(x, b, kernel, noise=0.5, dtype=torch.float64, device="cpu")


def direct(system) -> np.ndarray:
    k = system.kernel(system.x).numpy() + system.noise * np.eye(system.n)
    return np.linalg.solve(k, system.b.numpy())


def test_the_example_kernel_equals_its_formula_and_its_slope_the_derivative(build):
    kernel = build("apviz/kernels/cauchy.py").Cauchy(lengthscale=0.5, outputscale=2.0)
    x = np.random.default_rng(0).normal(size=(5, 3))
    r = np.linalg.norm(x[:, None] - x[None], axis=2) / 0.5
    np.testing.assert_allclose(kernel(torch.from_numpy(x)), 2.0 / (1 + r**2), rtol=1e-12)
    u = torch.linspace(0, 3, 7, dtype=torch.float64, requires_grad=True)
    (1 / (1 + u)).sum().backward()
    torch.testing.assert_close(kernel.slope(u.detach()), u.grad)


def test_the_example_rule_is_found_by_name_and_solves(build, system):
    rules = build("apviz/rules.py")
    tests = vars(rules).copy()
    exec(added("tests/test_rules.py"), tests)
    for name in [name for name in tests if name.startswith("test_")]:
        tests[name]()
    solution = apviz.solve(system, apviz.AlternatingProjection(block_size=25, rule="largest-mean", tol=1e-8))
    np.testing.assert_allclose(solution.weights, direct(system), atol=1e-6)


def test_the_example_solver_converges_to_the_direct_solution_and_its_energies_add_up(build, system):
    solver = build("apviz/solvers/baselines/heavy_ball.py").HeavyBall(tol=1e-8, max_epochs=5000)
    recorder = apviz.Recorder()
    solution = apviz.solve(system, solver, hooks=[recorder])
    expected = direct(system)
    assert solution.converged
    np.testing.assert_allclose(solution.weights, expected, atol=1e-6)
    least = -0.5 * np.trace(system.b.numpy().T @ expected)
    decreases = recorder.trace["update"]["energy_decrease"].values
    assert -decreases.sum() == pytest.approx(least, rel=1e-9)


def test_the_example_preconditioner_and_its_entry_make_a_method_for_comparisons(build, system, monkeypatch):
    for key in ("jacobi", "heavy-ball"):
        monkeypatch.setitem(METHODS, key, None)  # removed after the test
    build("apviz/solvers/baselines/heavy_ball.py")
    build("apviz/preconditioners/jacobi.py")
    build("apviz/methods.py")
    solvers = choose_solvers(["jacobi", "heavy-ball"], tol=1e-8, max_epochs=5000)
    assert {solver.method.name for solver in solvers} == {"CG + diagonal", "Heavy ball"}
    for solver in solvers:
        solution = apviz.solve(system, solver)
        np.testing.assert_allclose(solution.weights, direct(system), atol=1e-6)


def test_the_example_figure_draws_the_energies_of_the_trace(build, system):
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=1e-6), hooks=[recorder])
    figure = build("apviz/plots/solves/energy.py").energy(recorder.trace)
    np.testing.assert_allclose(figure.data[0].y, recorder.trace["epoch"]["energy"].values)


def test_the_example_page_states_its_limits(build):
    pytest.importorskip("panel")
    from apviz.dashboard.limits import Limits

    page = build("apviz/dashboard/pages/machine.py").Machine(types.SimpleNamespace(limits=Limits(max_n=4321)))
    assert "4,321 rows" in page.main().object
