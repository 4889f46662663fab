/** Covariance functions k(x, x′) = f(|x − x′|/ℓ) of outputscale 1: those of `apviz.kernels.KERNELS`, by their names. */

/** @type {Record<string, (r: number) => number>} f of the distance in lengthscales */
export const KERNELS = {
  matern12: (r) => Math.exp(-r),
  matern32: (r) => (1 + Math.sqrt(3) * r) * Math.exp(-Math.sqrt(3) * r),
  matern52: (r) => (1 + Math.sqrt(5) * r + (5 / 3) * r * r) * Math.exp(-Math.sqrt(5) * r),
  rbf: (r) => Math.exp(-0.5 * r * r),
  // with its α at 1
  "rational-quadratic": (r) => 1 / (1 + 0.5 * r * r),
};

/**
 * k as a function of two numbers.
 * @param {string} name of `KERNELS`
 * @param {number} lengthscale ℓ > 0
 * @throws {RangeError} an unknown name
 * @returns {(x: number, z: number) => number}
 */
export function kernelNamed(name, lengthscale) {
  const correlation = KERNELS[name];
  if (!correlation) throw new RangeError(`kernel must be one of ${Object.keys(KERNELS).join(", ")}, got ${name}`);
  return (x, z) => correlation(Math.abs(x - z) / lengthscale);
}

/**
 * k as a function of two points of several coordinates; see `kernelNamed`.
 * @returns {(x: ArrayLike<number>, z: ArrayLike<number>) => number}
 */
export function kernelOfPoints(name, lengthscale) {
  const ofDistance = kernelNamed(name, lengthscale);
  return (x, z) => {
    let sum = 0;
    for (let k = 0; k < x.length; k++) sum += (x[k] - z[k]) ** 2;
    return ofDistance(Math.sqrt(sum), 0);
  };
}
