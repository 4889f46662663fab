/**
 * Dense linear algebra for few rows, n ≤ 300, in float64.
 *
 * A vector is a Float64Array, a matrix an array of rows. Nothing is changed that is passed in.
 *
 * @typedef {Float64Array} Vector
 * @typedef {Float64Array[]} Matrix
 */

/** A matrix of rows × columns numbers. @returns {Matrix} */
export const matrix = (rows, columns, entry = () => 0) =>
  Array.from({length: rows}, (_, i) => Float64Array.from({length: columns}, (_, j) => entry(i, j)));

/** @returns {Matrix} */
export const transpose = (a) => matrix(a[0]?.length ?? 0, a.length, (i, j) => a[j][i]);

/** A[rows, columns]. @returns {Matrix} */
export const part = (a, rows, columns = rows) => rows.map((i) => Float64Array.from(columns, (j) => a[i][j]));

/** xᵀy. */
export function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

/** √(xᵀx). */
export const norm = (x) => Math.sqrt(dot(x, x));

/** Ax. @returns {Vector} */
export const times = (a, x) => Float64Array.from(a, (row) => dot(row, x));

/** AᵀX for a vector. @returns {Vector} */
export function transposedTimes(a, x) {
  const sum = new Float64Array(a[0]?.length ?? 0);
  for (let i = 0; i < a.length; i++) for (let j = 0; j < sum.length; j++) sum[j] += a[i][j] * x[i];
  return sum;
}

/** AB. @returns {Matrix} */
export function product(a, b) {
  const columns = transpose(b);
  return a.map((row) => times(columns, row));
}

/** x + factor·y. @returns {Vector} */
export const plus = (x, y, factor = 1) => x.map((each, i) => each + factor * y[i]);

/** factor·x. @returns {Vector} */
export const scaled = (x, factor) => x.map((each) => each * factor);

/**
 * The lower triangular L with A = LLᵀ.
 * @throws {RangeError} where A is not positive definite.
 * @returns {Matrix}
 */
export function cholesky(a) {
  const l = matrix(a.length, a.length);
  for (let i = 0; i < a.length; i++) {
    const own = l[i];
    for (let j = 0; j <= i; j++) {
      const row = l[j];
      let rest = a[i][j];
      for (let k = 0; k < j; k++) rest -= own[k] * row[k];
      if (i !== j) own[j] = rest / row[j];
      else if (rest > 0) own[i] = Math.sqrt(rest);
      else throw new RangeError(`pivot ${i} is ${rest}: the matrix is not positive definite`);
    }
  }
  return l;
}

/** L⁻¹b, L lower triangular. @returns {Vector} */
export function forward(l, b) {
  const x = Float64Array.from(b);
  for (let i = 0; i < x.length; i++) {
    const row = l[i];
    let rest = x[i];
    for (let k = 0; k < i; k++) rest -= row[k] * x[k];
    x[i] = rest / row[i];
  }
  return x;
}

/** L⁻ᵀb, L lower triangular. @returns {Vector} */
export function backward(l, b) {
  const x = Float64Array.from(b);
  // row by row of L, as it lies in memory
  for (let i = x.length - 1; i >= 0; i--) {
    const row = l[i],
      own = (x[i] /= row[i]);
    for (let k = 0; k < i; k++) x[k] -= row[k] * own;
  }
  return x;
}

/** A⁻¹b from the factor of A. @returns {Vector} */
export const solve = (l, b) => backward(l, forward(l, b));

/** Turns two vectors in their plane, in place: x to cx + sy, y to cy − sx. */
function rotate(x, y, c, s) {
  for (let k = 0; k < x.length; k++) [x[k], y[k]] = [c * x[k] + s * y[k], c * y[k] - s * x[k]];
}

/**
 * Singular values, largest first, with A vⱼ = sⱼ uⱼ: rotations make the columns of A orthogonal, two at a time
 * (Hestenes 1958; Golub & Van Loan, section 8.6.3). Only min(rows, columns) of them are returned.
 * @returns {{u: Vector[], values: Vector, v: Vector[]}} lists of singular vectors
 */
export function svd(a) {
  if (a.length < a[0].length) {
    const {u, values, v} = svd(transpose(a));
    return {u: v, values, v: u};
  }
  const columns = transpose(a),
    v = matrix(columns.length, columns.length, (i, j) => (i === j ? 1 : 0));
  for (let sweep = 0, rotated = true; rotated && sweep < 60; sweep++) {
    rotated = false;
    for (let p = 0; p < columns.length - 1; p++) {
      for (let q = p + 1; q < columns.length; q++) {
        const alpha = dot(columns[p], columns[p]),
          beta = dot(columns[q], columns[q]);
        const gamma = dot(columns[p], columns[q]);
        if (Math.abs(gamma) <= 1e-15 * Math.sqrt(alpha * beta)) continue;
        rotated = true;
        const zeta = (beta - alpha) / (2 * gamma);
        const t = Math.sign(zeta || 1) / (Math.abs(zeta) + Math.hypot(1, zeta)),
          c = 1 / Math.hypot(1, t),
          s = c * t;
        rotate(columns[p], columns[q], c, -s);
        rotate(v[p], v[q], c, -s);
      }
    }
  }
  const lengths = columns.map(norm);
  const order = [...lengths.keys()].sort((i, j) => lengths[j] - lengths[i]);
  return {
    u: order.map((j) => scaled(columns[j], lengths[j] ? 1 / lengths[j] : 0)),
    values: Float64Array.from(order, (j) => lengths[j]),
    v: order.map((j) => v[j]),
  };
}

/**
 * Eigenvalues of a symmetric matrix, largest first, with A vⱼ = λⱼ vⱼ: Householder's tridiagonal form, then QL with
 * implicit shifts (Bowdler, Martin, Reinsch & Wilkinson 1968; Golub & Van Loan, section 8.3).
 * @returns {{values: Vector, vectors: Vector[]}}
 */
export function symmetricEigen(a) {
  const {diagonal, offDiagonal, basis} = tridiagonal(a);
  rotateToDiagonal(diagonal, offDiagonal, basis);
  const order = [...diagonal.keys()].sort((i, j) => diagonal[j] - diagonal[i]);
  return {values: Float64Array.from(order, (j) => diagonal[j]), vectors: order.map((j) => basis[j])};
}

/** QᵀAQ tridiagonal, by reflections; `basis` holds the columns of Q, `offDiagonal[i]` is the entry (i, i + 1). */
function tridiagonal(a) {
  const n = a.length,
    t = a.map((row) => Float64Array.from(row)),
    offDiagonal = new Float64Array(n);
  const basis = matrix(n, n, (i, j) => (i === j ? 1 : 0));
  for (let k = 0; k < n - 2; k++) {
    // the reflection I − 2hhᵀ takes what is below the diagonal of column k onto its first entry
    const h = new Float64Array(n);
    for (let i = k + 1; i < n; i++) h[i] = t[i][k];
    const length = norm(h);
    if (length === 0) continue;
    h[k + 1] += Math.sign(h[k + 1] || 1) * length;
    const size = norm(h);
    for (let i = k + 1; i < n; i++) h[i] /= size;
    const p = times(t, h),
      half = dot(h, p);
    for (let i = k; i < n; i++) p[i] -= half * h[i];
    for (let i = k; i < n; i++) for (let j = k; j < n; j++) t[i][j] -= 2 * (h[i] * p[j] + p[i] * h[j]);
    const q = new Float64Array(n); // Qh
    for (let j = k + 1; j < n; j++) for (let i = 0; i < n; i++) q[i] += basis[j][i] * h[j];
    for (let j = k + 1; j < n; j++) for (let i = 0; i < n; i++) basis[j][i] -= 2 * q[i] * h[j];
  }
  for (let i = 0; i < n - 1; i++) offDiagonal[i] = t[i + 1][i];
  return {diagonal: Float64Array.from(t, (row, i) => row[i]), offDiagonal, basis};
}

/** Rotations that make `offDiagonal` vanish; the columns of Q in `basis`, where given, turn along. */
export function rotateToDiagonal(diagonal, offDiagonal, basis) {
  const n = diagonal.length;
  // what rounding leaves of a matrix of this size, in which the eigenvalues are as exact
  const sizes = diagonal.map((each, i) => Math.abs(each) + Math.abs(offDiagonal[i])),
    rounding = 2 ** -52 * Math.max(...sizes);
  for (let low = 0; low < n; low++) {
    for (let turn = 0; ; turn++) {
      let high = low;
      while (high < n - 1 && Math.abs(offDiagonal[high]) > rounding) high++;
      if (high === low) break;
      if (turn > 60) throw new RangeError("the eigenvalues do not settle");
      let g = (diagonal[low + 1] - diagonal[low]) / (2 * offDiagonal[low]);
      g = diagonal[high] - diagonal[low] + offDiagonal[low] / (g + Math.sign(g || 1) * Math.sqrt(g * g + 1));
      let s = 1,
        c = 1,
        shift = 0,
        i = high - 1;
      for (; i >= low; i--) {
        const f = s * offDiagonal[i],
          b = c * offDiagonal[i],
          r = Math.sqrt(f * f + g * g);
        offDiagonal[i + 1] = r;
        if (r === 0) {
          diagonal[i + 1] -= shift;
          offDiagonal[high] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        const before = diagonal[i + 1] - shift,
          rest = (diagonal[i] - before) * s + 2 * c * b;
        shift = s * rest;
        diagonal[i + 1] = before + shift;
        g = c * rest - b;
        if (basis) rotate(basis[i + 1], basis[i], c, s);
      }
      if (i >= low) continue;
      diagonal[low] -= shift;
      offDiagonal[low] = g;
      offDiagonal[high] = 0;
    }
  }
}
