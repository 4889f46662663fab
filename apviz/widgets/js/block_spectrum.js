/** Eigenvalues of K and of its blocks, all and exact, and what Theorem 1 makes of them. */

import {part, symmetricEigen} from "./algebra.js";

/**
 * Eigenvalues, largest first, of K and of every K[I, I]; κ = λmax/λmin and κ′ = λ′max/λmin.
 * @param {import("./span.js").Span} span
 * @param {number[][]} sets points of every block
 */
export function blockSpectrum(span, sets) {
  const eigenvalues = symmetricEigen(span.gram).values;
  const blocks = sets.map((set) => symmetricEigen(part(span.gram, set)).values);
  const smallest = eigenvalues.at(-1);
  return {
    eigenvalues,
    blocks,
    kappa: eigenvalues[0] / smallest,
    kappaPrime: Math.max(...blocks.map((values) => values[0])) / smallest,
  };
}
