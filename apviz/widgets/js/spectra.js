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
    offDiagonal = new Float64Array(n);
  // A − hpᵀ − phᵀ is not written before the next reflection, which multiplies it as it does
  let [h, p, g, q] = [0, 0, 0, 0].map(() => new Float64Array(n)),
    done = 0;
  for (let k = n - 1; k > 1; k--) {
    subtractPair(a[k], k, h, p);
    // the reflection I − ggᵀ·2/|g|² takes the first k entries of row k onto the last of them
    let size = 0;
    for (let j = 0; j < k; j++) {
      g[j] = a[k][j];
      size += g[j] * g[j];
    }
    const length = Math.sqrt(size),
      last = g[k - 1];
    offDiagonal[k - 1] = last > 0 ? -length : length;
    const squared = 2 * (size - last * offDiagonal[k - 1]),
      factor = squared === 0 ? 0 : 2 / squared;
    g[k - 1] -= offDiagonal[k - 1];
    subtractAndMultiply(a, k, h, p, g, q);
    let along = 0;
    for (let i = 0; i < k; i++) along += g[i] * q[i];
    for (let i = 0; i < k; i++) q[i] = factor * (q[i] - 0.5 * factor * along * g[i]);
    [h, p, g, q] = [g, q, h, p];
    if ((done += 2 * k * k) > PORTION) {
      done = 0;
      yield;
    }
  }
  for (let i = 0; i < Math.min(n, 2); i++) subtractPair(a[i], i, h, p);
  if (n > 1) offDiagonal[0] = a[1][0];
  return eigenvaluesOfTridiagonal(
    Float64Array.from(a, (row, i) => row[i]),
    offDiagonal,
  );
}

/** Row i of A − hpᵀ − phᵀ, up to its diagonal. */
function subtractPair(row, i, h, p) {
  for (let j = 0; j <= i; j++) row[j] -= h[i] * p[j] + p[i] * h[j];
}

/** Overwrite the first k rows of A with A − hpᵀ − phᵀ, and its product q with g: two rows a turn. */
function subtractAndMultiply(a, k, h, p, g, q) {
  q.fill(0, 0, k);
  for (let i = 0; i < k; i += 2) {
    if (i + 1 === k) {
      subtractPair(a[i], i, h, p);
      for (let j = 0; j < i; j++) {
        q[i] += a[i][j] * g[j];
        q[j] += a[i][j] * g[i];
      }
      q[i] += a[i][i] * g[i];
      break;
    }
    const one = a[i],
      two = a[i + 1];
    const h1 = h[i],
      p1 = p[i],
      g1 = g[i],
      h2 = h[i + 1],
      p2 = p[i + 1],
      g2 = g[i + 1];
    let sum1 = 0,
      sum2 = 0;
    for (let j = 0; j < i; j++) {
      const hj = h[j],
        pj = p[j],
        gj = g[j];
      const x = one[j] - h1 * pj - p1 * hj,
        y = two[j] - h2 * pj - p2 * hj;
      one[j] = x;
      two[j] = y;
      sum1 += x * gj;
      sum2 += y * gj;
      q[j] += x * g1 + y * g2;
    }
    const x = (one[i] -= 2 * h1 * p1),
      across = (two[i] -= h2 * p1 + p2 * h1),
      y = (two[i + 1] -= 2 * h2 * p2);
    q[i] += sum1 + x * g1 + across * g2;
    q[i + 1] += sum2 + across * g1 + y * g2;
  }
}

/** Eigenvalues of the symmetric matrix with this diagonal and these entries (i, i + 1); both are overwritten. */
export function eigenvaluesOfTridiagonal(diagonal, offDiagonal) {
  offDiagonal[diagonal.length - 1] = 0;
  rotateToDiagonal(diagonal, offDiagonal);
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
  const multiply = (v) => {
    const w = new Float64Array(own.length);
    for (let i = 0; i < own.length; i++) w[i] = dot(own[i], v);
    return w;
  };
  return largestEigenvalue(multiply, set.length, set.length ** 2);
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
    set.forEach((i, k) => (left[i] -= change[k]));
    subtractColumns(residual, gram, set, change);
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

/** r −= K[:, I]u of a symmetric K, four columns at a time, so that r is read and written less often. */
function subtractColumns(residual, gram, set, change) {
  const n = residual.length;
  let k = 0;
  for (; k + 4 <= set.length; k += 4) {
    const a = gram[set[k]],
      b = gram[set[k + 1]],
      c = gram[set[k + 2]],
      d = gram[set[k + 3]];
    const s = change[k],
      t = change[k + 1],
      u = change[k + 2],
      v = change[k + 3];
    for (let j = 0; j < n; j++) residual[j] -= s * a[j] + t * b[j] + u * c[j] + v * d[j];
  }
  for (; k < set.length; k++) {
    const row = gram[set[k]],
      u = change[k];
    for (let j = 0; j < n; j++) residual[j] -= u * row[j];
  }
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
