"""VIF by GPBoost: inducing points, and Vecchia's approximation of what they leave (Gyger, Furrer & Sigrist, 2025)."""

from __future__ import annotations

from typing import Any

from benchmarks.referee.entrants.vecchia import Vecchia

#: GPBoost's default, which needs more rows than that
INDUCING = 200


class VIF(Vecchia):
    """The same as `Vecchia`, with the full-scale approximation, at its default numbers of points and neighbours."""

    approximation = "full_scale_vecchia"

    def settings(self, rows: int) -> dict[str, Any]:
        return {"num_ind_points": min(INDUCING, rows // 2)}
