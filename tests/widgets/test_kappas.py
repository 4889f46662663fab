"""The widget on κ and κ′ in Python: exact eigenvalues, and the puzzle of the k-d tree."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

import apviz
from apviz.widgets import Kappas


def matern52(x: np.ndarray, lengthscale: float) -> np.ndarray:
    r = np.sqrt(5) * np.sqrt(((x[:, None] - x[None]) ** 2).sum(2)) / lengthscale
    return (1 + r + r**2 / 3) * np.exp(-r)


def test_a_block_drawn_at_random_removes_on_average_the_share_that_the_dashed_bound_promises():
    """From any error, E ‖e′‖²_K ≤ (1 − λmin(D⁻¹K)/m) ‖e‖²_K, so that m of them leave at most exp(−λmin(D⁻¹K))."""
    draw = np.random.default_rng(0)
    k = matern52(draw.uniform(size=(40, 2)), 0.3) + 0.05 * np.eye(40)
    blocks = np.arange(40).reshape(5, 8)
    d = np.zeros_like(k)
    for rows in blocks:
        d[np.ix_(rows, rows)] = k[np.ix_(rows, rows)]
    least, vectors = scipy.linalg.eigh(k, d, subset_by_index=[0, 0])
    for e in (*draw.standard_normal((20, 40)), vectors[:, 0]):
        left = []
        for rows in blocks:
            after = e.copy()
            after[rows] -= np.linalg.solve(k[np.ix_(rows, rows)], (k @ e)[rows])
            left.append(after @ k @ after)
        assert np.mean(left) / (e @ k @ e) <= (1 - least[0] / 5) * (1 + 1e-12)
    # reached by the last error
    assert np.mean(left) / (e @ k @ e) == pytest.approx(1 - least[0] / 5)
    assert (1 - least[0] / 5) ** 5 <= np.exp(-least[0])


def test_on_the_first_preset_the_kd_tree_has_the_larger_kappa_prime_and_is_faster():
    """The oracle recomputes κ′ and the solve from the data, and uses only the blocks of the library."""
    widget = Kappas()
    data = apviz.datasets.load("china", n=300)
    x, b = data.train_x.numpy().astype(np.float64), data.train_y.numpy().astype(np.float64)
    k = matern52(x, 0.15) + 0.05 * np.eye(300)
    goal = np.linalg.solve(k, b)
    kappa_prime, epochs, coupling = {}, {}, {}
    for name, solve in widget.solves.items():
        blocks = [list(rows) for rows in solve.trajectory.blocks]
        values = scipy.linalg.eigvalsh(k)
        kappa_prime[name] = max(scipy.linalg.eigvalsh(k[np.ix_(rows, rows)])[-1] for rows in blocks) / values[0]
        assert solve.spectrum.kappa_prime == pytest.approx(kappa_prime[name], rel=1e-4)
        d = np.zeros_like(k)
        w, updates = np.zeros(300), 0
        for rows in blocks:
            d[np.ix_(rows, rows)] = k[np.ix_(rows, rows)]
        coupling[name] = scipy.linalg.eigh(k, d, eigvals_only=True)[0]
        while (w - goal) @ k @ (w - goal) > 0.01 * (goal @ k @ goal):
            r = b - k @ w
            rows = max(blocks, key=lambda rows: float(np.linalg.norm(r[rows])))
            w[rows] += np.linalg.solve(k[np.ix_(rows, rows)], r[rows])
            updates += 1
        epochs[name] = updates / len(blocks)
        assert solve.epochs_to(0.01) == pytest.approx(epochs[name], abs=0.11)
    assert kappa_prime["kd-tree"] > 2 * kappa_prime["sequential"]
    assert 2 * epochs["kd-tree"] < epochs["sequential"]
    # the rate with couplings between blocks agrees
    assert coupling["kd-tree"] > 1.5 * coupling["sequential"]


def test_a_long_lengthscale_reverses_the_order():
    widget = Kappas()
    widget.choose("a long lengthscale: the k-d tree is slower")
    solves = widget.solves
    assert solves["kd-tree"].spectrum.kappa_prime > solves["sequential"].spectrum.kappa_prime
    assert solves["kd-tree"].epochs_to(0.01) > solves["sequential"].epochs_to(0.01)


def test_noise_makes_kappa_and_kappa_prime_smaller_and_the_bound_closer():
    widget = Kappas()
    before = widget.solves["sequential"].spectrum
    widget.choose("much noise: the bound is closer")
    after = widget.solves["sequential"].spectrum
    assert after.kappa < before.kappa and after.kappa_prime < before.kappa_prime
    # every eigenvalue grows by the increase of the noise
    np.testing.assert_allclose(after.eigenvalues - before.eigenvalues, 2.95, rtol=1e-9)


def test_in_every_preset_the_bound_is_above_the_measured_error():
    widget = Kappas()
    for preset in widget.presets:
        widget.choose(preset)
        for solve in widget.solves.values():
            assert (solve.errors <= solve.bound * (1 + 1e-9)).all()


def test_every_preset_needs_a_new_bet_and_a_bet_must_be_an_answer():
    widget = Kappas(bet="kd-tree")
    widget.choose("ten inputs: diabetes")
    assert widget.bet == ""
    with pytest.raises(ValueError, match="bet"):
        Kappas(bet="both")
