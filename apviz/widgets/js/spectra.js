/**
 * Eigenvalues of symmetric matrices of hundreds of rows, and solves over their blocks: what `algebra.js` does, faster,
 * and as generators that may be left between two frames.
 */

import {cholesky, dot, part, rotateToDiagonal, solve} from "./algebra.js";

/** multiplications after which a generator may be left; share of a value below which it has settled */
const PORTION = 400_000,
  SETTLED = 1e-14;

/**
 * Eigenvalues, largest first: Householder's tridiagonal form from the last row up, then QL without vectors (Bowdler,
 * Martin, Reinsch & Wilkinson 1968; Golub & Van Loan, section 8.3).
 * @param {import("./algebra.js").Matrix} matrix of which the lower triangle is read
 */
export function* eigenvaluesOf(matrix) {
  const n = matrix.length,
    a = matrix.map((row, i) => row.slice(0, i + 1)),
    beside = new Float64Array(n);
  const h = new Float64Array(n),
    p = new Float64Array(n);
  let done = 0;
  for (let k = n - 1; k > 1; k--) {
    // the reflection I − hhᵀ·2/|h|² takes the first k entries of row k onto the last of them
    let size = 0;
    for (let j = 0; j < k; j++) {
      h[j] = a[k][j];
      size += h[j] * h[j];
    }
    const length = Math.sqrt(size),
      last = h[k - 1];
    beside[k - 1] = last > 0 ? -length : length;
    const squared = 2 * (size - last * beside[k - 1]);
    if (squared === 0) continue;
    h[k - 1] -= beside[k - 1];
    p.fill(0, 0, k);
    for (let i = 0; i < k; i++) {
      const row = a[i],
        hi = h[i];
      let sum = row[i] * hi;
      for (let j = 0; j < i; j++) {
        sum += row[j] * h[j];
        p[j] += row[j] * hi;
      }
      p[i] += sum;
    }
    const factor = 2 / squared;
    let along = 0;
    for (let i = 0; i < k; i++) along += h[i] * p[i];
    for (let i = 0; i < k; i++) p[i] = factor * (p[i] - 0.5 * factor * along * h[i]);
    for (let i = 0; i < k; i++) {
      const row = a[i],
        hi = h[i],
        pi = p[i];
      for (let j = 0; j <= i; j++) row[j] -= hi * p[j] + pi * h[j];
    }
    if ((done += 2 * k * k) > PORTION) {
      done = 0;
      yield;
    }
  }
  if (n > 1) beside[0] = a[1][0];
  return eigenvaluesOfTridiagonal(
    Float64Array.from(a, (row, i) => row[i]),
    beside,
  );
}

/** Of the symmetric matrix with a diagonal, and beside it the entries (i, i + 1); both are changed. */
export function eigenvaluesOfTridiagonal(diagonal, beside) {
  beside[diagonal.length - 1] = 0;
  rotateToDiagonal(diagonal, beside);
  return diagonal.sort().reverse();
}

/**
 * The largest eigenvalue by Lanczos' method with full orthogonalisation, from a vector of ones, until it settles.
 * @param {(v: Float64Array) => Float64Array} multiply
 * @param {number} n
 * @param {number} cost multiplications of one product
 */
export function* largestEigenvalue(multiply, n, cost) {
  const basis = [Float64Array.from({length: n}, (_, i) => (1 + (i % 7) / 10) / Math.sqrt(n))],
    alpha = [],
    beta = [];
  const first = Math.sqrt(dot(basis[0], basis[0]));
  basis[0] = basis[0].map((each) => each / first);
  let before = 0,
    done = 0;
  for (let k = 0; ; k++) {
    const w = multiply(basis[k]);
    alpha.push(dot(w, basis[k]));
    for (let turn = 0; turn < 2; turn++) {
      for (const each of basis) {
        const along = dot(w, each);
        for (let i = 0; i < n; i++) w[i] -= along * each[i];
      }
    }
    const length = Math.sqrt(dot(w, w));
    beta.push(length);
    const isLast = k === n - 1 || length <= SETTLED * Math.abs(alpha[0]);
    if (k % 4 === 3 || isLast) {
      const [now] = eigenvaluesOfTridiagonal(Float64Array.from(alpha), Float64Array.from(beta));
      if (isLast || now - before <= SETTLED * now) return now;
      before = now;
    }
    basis.push(w.map((each) => each / length));
    if ((done += cost + 4 * n * k) > PORTION) {
      done = 0;
      yield;
    }
  }
}

/** λmax of a part of a matrix, whose rows and columns are those of a set. */
export function largestOfPart(matrix, set) {
  const own = part(matrix, set);
  return largestEigenvalue((v) => Float64Array.from(own, (row) => dot(row, v)), set.length, set.length ** 2);
}

/** The lower triangular L with A = LLᵀ of a matrix of hundreds of rows. */
export function* factorOf(a) {
  const l = a.map(() => null);
  for (let i = 0, done = 0; i < a.length; i++) {
    const own = (l[i] = new Float64Array(a.length));
    for (let j = 0; j <= i; j++) {
      const row = l[j];
      let rest = a[i][j];
      for (let k = 0; k < j; k++) rest -= own[k] * row[k];
      if (i !== j) own[j] = rest / row[j];
      else if (rest > 0) own[i] = Math.sqrt(rest);
      else throw new RangeError(`pivot ${i} is ${rest}: the matrix is not positive definite`);
    }
    if ((done += (i * i) / 2) > PORTION) {
      done = 0;
      yield;
    }
  }
  return l;
}

/**
 * Solve of Kw = b by gauss-southwell over disjoint blocks: after every update ‖W−W*‖²_K as a share of its start.
 * @returns {{errors: number[], taken: number[]}} from W − W*, exact to rounding
 */
export function* errorsOverBlocks(gram, b, goal, sets, updates) {
  const factors = sets.map((set) => cholesky(part(gram, set))),
    residual = Float64Array.from(b),
    left = Float64Array.from(goal);
  const start = dot(b, goal),
    errors = [1],
    taken = [];
  for (let number = 0, done = 0; number < updates; number++) {
    let [best, largest] = [0, -1];
    sets.forEach((set, block) => {
      let sum = 0;
      for (const i of set) sum += residual[i] ** 2;
      if (sum > largest) [best, largest] = [block, sum];
    });
    const set = sets[best],
      change = solve(
        factors[best],
        set.map((i) => residual[i]),
      );
    set.forEach((i, k) => {
      const row = gram[i],
        u = change[k];
      left[i] -= u;
      for (let j = 0; j < residual.length; j++) residual[j] -= u * row[j];
    });
    taken.push(best);
    // r = K(w* − w), so that (w* − w)ᵀr is the squared K-norm
    errors.push(Math.max(0, dot(left, residual)) / start);
    if ((done += set.length * residual.length) > PORTION) {
      done = 0;
      yield;
    }
  }
  return {errors, taken};
}

/**
 * λmin(D⁻¹K), where D holds the blocks K[I, I] alone: 1/λmax(MᵀK⁻¹M), D = MMᵀ.
 * @param {import("./algebra.js").Matrix} factor of K
 */
export function* coupling(gram, factor, sets) {
  const factors = sets.map((set) => cholesky(part(gram, set))),
    n = gram.length;
  const multiply = (v) => {
    const spread = new Float64Array(n),
      back = new Float64Array(n);
    sets.forEach((set, j) => {
      set.forEach((i, k) => {
        let sum = 0;
        for (let m = 0; m <= k; m++) sum += factors[j][k][m] * v[set[m]];
        spread[i] = sum;
      });
    });
    const solved = solve(factor, spread);
    sets.forEach((set, j) => {
      set.forEach((i, k) => {
        for (let m = 0; m <= k; m++) back[set[m]] += factors[j][k][m] * solved[i];
      });
    });
    return back;
  };
  return 1 / (yield* largestEigenvalue(multiply, n, n * n));
}
