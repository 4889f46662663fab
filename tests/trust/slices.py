"""Slices of campaigns."""

from __future__ import annotations

import pytest
import torch

torch.set_num_threads(1)


def of_which_one_is_quick(firsts):
    """Return slices of a campaign by their first seeds; all but one are slow."""
    return [first if place == 0 else pytest.param(first, marks=pytest.mark.slow) for place, first in enumerate(firsts)]


def wrong(campaign, first, count):
    """Return the wrong verdicts on a slice of a campaign."""
    verdicts = {seed: campaign.judge(seed) for seed in range(first, first + count)}
    return {seed: verdict for seed, verdict in verdicts.items() if verdict.is_wrong}


def first_of(campaign, kind, found=lambda case: case.kind, seeds=range(200)):
    """Return the first seed of a kind of case."""
    return next(seed for seed in seeds if found(campaign.case(seed)) == kind)
