/** Geometry of one projection: what was projected, onto what, what is left, and at which angles. */

import {cholesky, forward, norm, part, plus, times, transpose, transposedTimes} from "./algebra.js";

/** of ‖g‖_H below which a residual is rounding, and has no angle */
const ZERO = 1e-9;

/**
 * Update `number` of a trajectory, in orthonormal coordinates in which lengths and angles are those of H.
 * Angles are in radians; NaN where there is no block, or r is zero.
 * @param {import("./trajectory.js").Trajectory} trajectory
 * @param {number} number 0 for the state before the first update
 */
export function stepGeometry({span, steps, goal, blocks}, number) {
  const chosen = steps[number].block,
    block = chosen < 0 ? [] : blocks[chosen].solved;
  const residuals = steps.map(({weights}) => span.coordinates(plus(goal, weights, -1)));
  const basis = orthonormalBasis(span, block),
    smallest = ZERO * norm(residuals[0]);
  const before = residuals[Math.max(number - 1, 0)],
    after = residuals[number];
  return {
    block,
    residuals,
    basis,
    before,
    after,
    goal: residuals[0],
    kernels: span.factor,
    projection: plus(before, after, -1),
    kernelAngles: span.gram.map((row, i) =>
      row.map((each, j) => {
        return i === j ? 0 : Math.acos(clipped(each / Math.sqrt(span.gram[i][i] * span.gram[j][j])));
      }),
    ),
    angleBefore: angleToSpan(before, basis, smallest),
    angleAfter: angleToSpan(after, basis, smallest),
  };
}

/** |I| orthonormal vectors of span{k(xᵢ, ·): i ∈ I}, in coordinates: with K[I, I] = MMᵀ those of M⁻¹L_I. */
function orthonormalBasis(span, block) {
  if (!block.length) return [];
  const m = cholesky(part(span.gram, block));
  const rows = block.map((i) => span.factor[i]);
  return transpose(transpose(rows).map((column) => forward(m, column)));
}

/** By both parts of the vector, which is exact near 0 and near a right angle. */
function angleToSpan(vector, basis, smallest) {
  if (!basis.length || norm(vector) <= smallest) return NaN;
  const inside = times(basis, vector);
  return Math.atan2(norm(plus(vector, transposedTimes(basis, inside), -1)), norm(inside));
}

const clipped = (cosine) => Math.min(1, Math.max(-1, cosine));
