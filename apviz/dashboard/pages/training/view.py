"""What is looked at on the page Training."""

from __future__ import annotations

import param


class TrainingView(param.Parameterized):
    """What is looked at."""

    training = param.String("", label="the training that is shown")
    step = param.Integer(None, allow_None=True, bounds=(1, None), label="the step whose solve is shown; none: the last")
