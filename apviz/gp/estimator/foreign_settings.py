"""Settings of scikit-learn's GaussianProcessRegressor that the estimator does not have, and what to use instead."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

Kind = TypeVar("Kind")

#: what to use instead of each setting of scikit-learn
INSTEAD = {
    "alpha": "the noise is trained; to fix it, add WhiteKernel(alpha, 'fixed') to a scikit-learn kernel, or give "
    "hyperparameters=apviz.Hyperparameters(..., noise=alpha); for one value a row also pass "
    "fit(x, y, sample_weight=1/alpha), with a noise of 1",
    "optimizer": "use optimiser='l-bfgs', 'adam' or 'auto'; instead of optimizer=None give hyperparameters=..., or a "
    "scikit-learn kernel whose bounds are all 'fixed'",
    "normalize_y": "scale=True standardises the target and scales the inputs, scale=False changes nothing; "
    "predictions are in the target's own units with both",
    "n_restarts_optimizer": "use n_restarts",
    "copy_X_train": "leave it out: the training rows are always copied",
    "n_targets": "leave it out: before a fit, predictions are those of one output",
}


def refusing(kind: type[Kind]) -> type[Kind]:
    """Decorate a class, so that unknown settings raise the error of `refuse`; its signature stays explicit."""
    init: Any = kind.__init__
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def checked(self: Kind, *args: Any, **given: Any) -> None:
        refuse(given, known)
        init(self, *args, **given)

    kind.__init__ = checked  # type: ignore[assignment]
    return kind


def refuse(given: Iterable[str], known: Collection[str]) -> None:
    """Raise a TypeError that says what to use instead of the first setting that the estimator does not have."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            advice = INSTEAD.get(name, f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known))}")
            raise TypeError(f"GaussianProcess has no setting {name!r}: {advice}")
