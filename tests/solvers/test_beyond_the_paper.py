"""Overlap and a history of updates, against dense float64 linear algebra."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz.partitions import KDTree, PrincipalAxisTree
from apviz.solvers import Hook, PlainStep, Subspace
from tests.device import DEVICE


def problem(n=240, d=2, columns=2, noise=0.05, seed=0, lengthscale=0.5):
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(-1, 1, (n, d)), rng.standard_normal((n, columns))
    system = apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, operator="dense", dtype=torch.float64, device=DEVICE
    )
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / lengthscale, axis=2)
    return system, (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(n), b


def step_of(length):
    return Subspace(length=length) if length else PlainStep()


def energy(k, w, b):
    return 0.5 * np.trace(w.T @ k @ w) - np.trace(b.T @ w)


class EveryUpdate(Hook):
    """Keeps the weights and the recursive residual after every update."""

    def on_start(self, run):
        self.run, self.states = run, [(run.weights.clone(), run.residual_vectors.clone())]

    def on_update(self, update):
        self.states.append((self.run.weights.clone(), self.run.residual_vectors.clone()))


def states(system, **options):
    watch, recorder = EveryUpdate(), apviz.Recorder()
    solver = apviz.AlternatingProjection(
        **{"block_size": 40, "partition": "kd-tree", "tol": 1e-12, "max_epochs": 3, **options}
    )
    apviz.solve(system, solver, [watch, recorder])
    return [(w.numpy(), r.numpy()) for w, r in watch.states], recorder.trace


VARIANTS = [{"step": Subspace(length=5)}, {"step": Subspace(length=100), "partition": KDTree(overlap=1.0)}]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@settings(deadline=None, max_examples=10)
@given(
    columns=st.integers(1, 4), seed=st.integers(0, 99),
    rule=st.sampled_from(["gauss-southwell", "cyclic", "random", "shuffled"]),
)  # fmt: skip
def test_after_every_update_the_residual_equals_b_minus_kw_and_the_energy_h(options, columns, seed, rule):
    system, k, b = problem(columns=columns, seed=seed)
    found, trace = states(system, rule=rule, **options)
    recorded = np.concatenate([[0.0], -trace["update"]["energy_decrease"].to_numpy().cumsum()])
    for (w, r), h in zip(found, recorded, strict=True):
        np.testing.assert_allclose(r, b - k @ w, atol=1e-8 * np.abs(b).max())
        assert energy(k, w, b) == pytest.approx(h, rel=1e-8, abs=1e-8)
    assert np.diff(recorded).max() <= 1e-9


def test_with_a_history_the_energy_is_minimal_over_the_span_of_the_last_updates():
    system, k, b = problem(columns=1, seed=3)
    length = 4
    found, _ = states(system, rule="cyclic", partition=KDTree(overlap=0.5), step=Subspace(length=length))
    plain_updates = []  # the projections, before they are combined
    for (w, _), (after, _) in zip(found, found[1:], strict=False):
        plain_updates.append(after - w)
    for t in range(1, len(plain_updates) + 1):
        # each step is a combination of the raw updates so far, so the steps span the same space while all are kept
        if t > length:
            break
        span = np.concatenate(plain_updates[:t], axis=1)
        least = np.linalg.solve(span.T @ k @ span, span.T @ b)
        assert energy(k, found[t][0], b) == pytest.approx(energy(k, span @ least, b), rel=1e-6)


def test_a_history_takes_less_work_on_an_ill_conditioned_system():
    system, _, _ = problem(n=600, d=4, noise=1e-3)
    plain, kept = (
        apviz.solve(
            system,
            apviz.AlternatingProjection(block_size=60, partition=KDTree(overlap=1.0), step=step_of(q), tol=1e-8),
        )
        for q in (0, 20)
    )
    assert kept.converged and kept.work < 0.7 * plain.work


def test_an_epoch_of_overlapping_blocks_ends_once_the_tolerance_is_met_and_one_of_disjoint_blocks_is_whole():
    system, _, _ = problem(n=800, d=2, noise=0.5)
    for overlap, whole in ((0.0, True), (1.0, False)):
        recorder = apviz.Recorder()
        solver = apviz.AlternatingProjection(block_size=20, partition=KDTree(overlap=overlap), tol=0.1)
        assert apviz.solve(system, solver, [recorder]).converged
        updates = recorder.trace["update"].sizes["update"]
        assert (updates % 40 == 0) == whole


@pytest.mark.parametrize("setting", ["fallback_rank", "block_size"])
@pytest.mark.parametrize("value", [-1, 1.5, "some"])
def test_an_error_about_a_setting_names_it(setting, value):
    with pytest.raises(ValueError, match=f"{setting} must be .*got {value!r}"):
        apviz.AlternatingProjection(**{setting: value})


@pytest.mark.parametrize("history", [0, 8])
def test_the_same_seed_gives_the_same_trace(history):
    system, _, _ = problem()
    solver = apviz.AlternatingProjection(block_size=40, partition=PrincipalAxisTree(overlap=1.0), step=step_of(history))
    one, two = apviz.solve(system, solver), apviz.solve(system, solver)
    assert torch.equal(one.weights, two.weights)
