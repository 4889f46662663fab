"""κ and κ′ as Python has them: exact eigenvalues, and the puzzle of the k-d tree."""

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


def test_on_the_first_preset_the_kd_tree_has_the_larger_kappa_prime_and_is_faster():
    """κ′ and the solve are recomputed here from the data, with the blocks alone taken from the library."""
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
    # and the rate that sees the couplings between blocks says so
    assert coupling["kd-tree"] > 1.5 * coupling["sequential"]


def test_a_long_lengthscale_turns_it_round():
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
    # every eigenvalue moves by what the noise grew by
    np.testing.assert_allclose(after.eigenvalues - before.eigenvalues, 2.95, rtol=1e-9)


def test_the_bound_is_never_below_the_measured_error_in_any_preset():
    widget = Kappas()
    for preset in widget.presets:
        widget.choose(preset)
        for solve in widget.solves.values():
            assert (solve.errors <= solve.bound * (1 + 1e-9)).all()


def test_a_preset_is_bet_on_anew_and_a_bet_is_an_answer():
    widget = Kappas(bet="kd-tree")
    widget.choose("ten inputs: diabetes")
    assert widget.bet == ""
    with pytest.raises(ValueError, match="bet"):
        Kappas(bet="both")
