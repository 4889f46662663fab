"""Small data sets on which the rules of block selection differ, each with something to see."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch

from apviz.datasets import load
from apviz.rkhs.span import Floats
from apviz.settings import require

Situation = Literal["even", "one bump", "crowded", "photograph"]


def situation(name: Situation, n: int) -> tuple[Floats, Floats]:
    """Points in increasing order and data at them, (n,) each.

    `even`: a smooth function and noise at points spread evenly. `one bump`: data that are zero but for one place.
    `crowded`: half of the points close together, with a common offset. `photograph`: columns of the picture china
    and their mean luminance, standardised; n up to 512.

    Raises:
        ValueError: an unknown name, with the known ones; more columns than there are.
    """
    require(name in get_args(Situation), "situation", name, f"one of {', '.join(get_args(Situation))}")
    if name == "photograph":
        data = load("china-profile", n=n, dtype=torch.float64)
        order = np.argsort(data.train_x[:, 0].numpy())
        return data.train_x[:, 0].numpy()[order], data.train_y.numpy()[order]
    draws = np.random.default_rng(0)
    x = np.sort(draws.uniform(0, 1, n))
    noise = draws.standard_normal(n)
    if name == "even":
        return x, np.sin(9 * x) * np.exp(-x) + 0.1 * noise
    if name == "one bump":
        return x, np.exp(-0.5 * ((x - 0.7) / 0.06) ** 2) + 0.02 * noise
    crowd = n // 2
    x = np.sort(np.concatenate([0.1 + 0.05 * x[:crowd], draws.uniform(0.2, 1, n - crowd)]))
    return x, np.where(x < 0.16, 1.0, 0.9 * np.sign(np.sin(40 * x))) + 0.1 * noise
