"""The examples' loss, which the other files compare with, is the density it is said to be."""

import numpy as np
import scipy.stats
import torch

from tests.gpytorch.examples import simple


def test_the_references_loss_is_scipys_density():
    e = simple()
    with torch.no_grad():
        k = e.likelihood(e.model(e.x)).covariance_matrix
        loss = e.loss()
    density = scipy.stats.multivariate_normal.logpdf(e.y.numpy(), np.zeros(100), k.numpy())
    np.testing.assert_allclose(loss, -density / 100, rtol=1e-10)
