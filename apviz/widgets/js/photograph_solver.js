/**
 * Alternating projection on all pixels of a picture, one right-hand side, in float64.
 *
 * K is never held: places lie on a grid and k looks at distances alone, so that one table of k by rows and columns
 * apart has every entry. What takes long is written as generators, which may be left between two frames.
 */

import {Draws, drawnBlocks} from "./draws.js";
import {kernelOfPoints} from "./kernels.js";
import {kdTree, marginSize, nearest, principalAxisTree, sequential} from "./partitions.js";

/** multiplications after which a generator may be left; updates between two states that are kept, and latest ones */
const PORTION = 400_000,
  KEPT_EVERY = 64,
  LATEST = 32;

/** Pixels as rows of K: places from −1 to 1 along both sides, row by row, and grey values b, standardised. */
export class Picture {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {ArrayLike<number>} grey from 0 to 255, row by row
   */
  constructor(rows, columns, grey) {
    Object.assign(this, {rows, columns, n: rows * columns});
    const along = (k, count) => (2 * k) / (count - 1) - 1;
    this.points = Array.from({length: this.n}, (_, i) =>
      Float64Array.of(along(Math.floor(i / columns), rows), along(i % columns, columns)),
    );
    let [mean, square] = [0, 0];
    for (let i = 0; i < this.n; i++) mean += grey[i] / this.n;
    for (let i = 0; i < this.n; i++) square += (grey[i] - mean) ** 2 / this.n;
    this.b = Float64Array.from({length: this.n}, (_, i) => (grey[i] - mean) / Math.sqrt(square));
  }

  /** Rows that blocks own: scattered pixels for `sequential`, since rows come in random order, or neighbours. */
  blocks(partition, size) {
    this._order ??= new Draws(0).permutation(this.n);
    if (partition === "kd-tree") return kdTree(this.points, size, this._order);
    if (partition === "principal-axis-tree") return principalAxisTree(this.points, size, this._order);
    return sequential(this.n, size, this._order);
  }
}

/** One solve of Kw = b, which goes to and fro between its updates. */
export class PictureSolve {
  /**
   * @param {Picture} picture
   * @param {{sets: number[][], overlap?: number, rule?: string, tol?: number, most?: number, kernel?: string,
   *     lengthscale?: number, noise?: number}} settings `sets` are the rows that blocks own
   */
  constructor(picture, settings) {
    const {sets, overlap = 0, rule = "gauss-southwell", tol = 1e-2, most = 1000} = settings;
    const {kernel = "matern52", lengthscale = 0.1, noise = 0.05} = settings;
    Object.assign(this, {picture, sets, overlap, rule, tol, most, noise});
    const {rows, columns, n, b} = picture,
      ofPoints = kernelOfPoints(kernel, lengthscale);
    // the entry for r rows and c columns apart is at r·width + columns − 1 ± c
    this._width = 2 * columns - 1;
    this._table = new Float64Array(rows * this._width);
    const [down, right] = [2 / (rows - 1), 2 / (columns - 1)];
    for (let r = 0; r < rows; r++) {
      for (let c = 1 - columns; c < columns; c++) {
        this._table[r * this._width + columns - 1 + c] = ofPoints([r * down, c * right], [0, 0]);
      }
    }
    this.residual = Float64Array.from(b);
    this.weights = new Float64Array(n);
    this._solved = sets.map(() => null);
    this._factors = sets.map(() => null);
    this._size = Math.sqrt(b.reduce((sum, each) => sum + each * each, 0));
    const solved = sets.map((owned) => owned.length + marginSize(owned.length, n, overlap, sets.length));
    /** updates that have been found; block, change of its weights, ‖r‖/‖b‖ and work after each */
    this.steps = [{block: -1, change: null, norm: 1, work: solved.reduce((sum, each) => sum + each * each, 0) / n ** 2}];
    this._kept = new Map([[0, [Float64Array.from(this.residual), Float64Array.from(this.weights)]]]);
    /** the update that `residual` and `weights` are after, the one to go to, and whether they are between two now */
    this.at = this.target = 0;
    this.isBetween = false;
    this._draw = rule === "random" || rule === "shuffled" ? drawnBlocks(rule, sets.length) : null;
  }

  /** Whether it is where it is to go, or where the solve ended before. */
  get isThere() {
    return !this.isBetween && this.at === (this.isEnded ? Math.min(this.target, this.steps.length - 1) : this.target);
  }

  get isEnded() {
    return this.steps.at(-1).norm < this.tol || this.steps.length > this.most;
  }

  /** Rows that a block solves on, what it owns first; null for a block that was never taken. */
  solved(block) {
    return this._solved[block];
  }

  *_rows(block) {
    const {points, n} = this.picture,
      owned = this.sets[block];
    const count = marginSize(owned.length, n, this.overlap, this.sets.length);
    return Int32Array.from([...owned, ...(yield* nearest(points, owned, count, PORTION))]);
  }

  /** Compute one portion of the remaining work, if any. */
  goOn() {
    if (this.isThere) return;
    this._running ??= this.work();
    if (this._running.next().done) this._running = null;
  }

  /** Goes to `target`, which may change on the way, or to the last update where the solve ends before. */
  *work() {
    while (!this.isThere) {
      const from = Math.max(...[...this._kept.keys()].filter((at) => at <= this.target));
      if (this.target < this.at || from > this.at) {
        [this.residual, this.weights] = this._kept.get(from).map((each) => Float64Array.from(each));
        this.at = from;
        continue;
      }
      const next = this.at + 1;
      if (next < this.steps.length) {
        const {block, change} = this.steps[next];
        yield* this._apply(this.solved(block), change);
      } else yield* this._update();
      this.at = next;
      this._keep();
      yield;
    }
  }

  /** The states that one is likely to go back to: the latest, and some on the way. */
  _keep() {
    this._kept.delete(this.at);
    this._kept.set(this.at, [Float64Array.from(this.residual), Float64Array.from(this.weights)]);
    const latest = [...this._kept.keys()].filter((at) => at % KEPT_EVERY);
    for (const at of latest.slice(0, -LATEST)) this._kept.delete(at);
  }

  *_update() {
    const block = this._next(),
      rows = (this._solved[block] ??= yield* this._rows(block));
    const factor = (this._factors[block] ??= yield* this._factor(rows));
    const change = solveWith(
      factor,
      Float64Array.from(rows, (i) => this.residual[i]),
    );
    yield* this._apply(rows, change);
    const norm = Math.sqrt(this.residual.reduce((sum, each) => sum + each * each, 0)) / this._size;
    const work = this.steps.at(-1).work + rows.length / this.picture.n;
    this.steps.push({block, change, norm, work});
  }

  _next() {
    if (this.rule === "cyclic") return (this.steps.length - 1) % this.sets.length;
    if (this._draw) return this._draw();
    let [best, largest] = [0, -1];
    this.sets.forEach((owned, block) => {
      let sum = 0;
      for (const i of owned) sum += this.residual[i] ** 2;
      if (sum > largest) [best, largest] = [block, sum];
    });
    return best;
  }

  /** w_I += u, r −= K[:, I]u, column by column of K. */
  *_apply(rows, change) {
    this.isBetween = true;
    const {columns, n} = this.picture,
      {residual, weights, noise} = this,
      table = this._table,
      width = this._width;
    // four columns at a time, so that the residual is read and written less often; what is missing is zero
    for (let k = 0, done = 0; k < rows.length; k += 4) {
      const four = [0, 1, 2, 3].map((j) => Math.min(k + j, rows.length - 1));
      const [i0, i1, i2, i3] = four.map((j) => rows[j]);
      const [u0, u1, u2, u3] = four.map((j, m) => (j === k + m ? change[j] : 0));
      const [r0, r1, r2, r3] = [i0, i1, i2, i3].map((i) => Math.floor(i / columns));
      const [c0, c1, c2, c3] = [i0, i1, i2, i3].map((i) => columns - 1 - (i % columns));
      for (let at = 0, r = 0; at < n; at += columns, r++) {
        const f0 = Math.abs(r - r0) * width + c0 - at,
          f1 = Math.abs(r - r1) * width + c1 - at,
          f2 = Math.abs(r - r2) * width + c2 - at,
          f3 = Math.abs(r - r3) * width + c3 - at;
        for (let i = at; i < at + columns; i++) {
          residual[i] -= u0 * table[f0 + i] + u1 * table[f1 + i] + u2 * table[f2 + i] + u3 * table[f3 + i];
        }
      }
      if ((done += 4 * n) > PORTION) {
        done = 0;
        yield;
      }
    }
    rows.forEach((i, k) => {
      residual[i] -= noise * change[k];
      weights[i] += change[k];
    });
    this.isBetween = false;
  }

  /** The lower triangle of L, K[I, I] = LLᵀ, row after row. */
  *_factor(rows) {
    const size = rows.length,
      {columns} = this.picture,
      table = this._table,
      width = this._width;
    const l = new Float64Array((size * (size + 1)) / 2);
    for (let i = 0, done = 0; i < size; i++) {
      const ri = Math.floor(rows[i] / columns),
        ci = rows[i] % columns,
        a = (i * (i + 1)) / 2;
      for (let j = 0; j <= i; j++) {
        const rj = Math.floor(rows[j] / columns),
          cj = rows[j] % columns,
          b = (j * (j + 1)) / 2;
        let rest = table[Math.abs(ri - rj) * width + columns - 1 + ci - cj];
        if (i === j) rest += this.noise;
        for (let k = 0; k < j; k++) rest -= l[a + k] * l[b + k];
        l[a + j] = i === j ? Math.sqrt(rest) : rest / l[b + j];
      }
      if ((done += (i * i) / 2) > PORTION) {
        done = 0;
        yield;
      }
    }
    return l;
  }

  /** The posterior mean at the pixels: Kw − σ²w = b − r − σ²w. */
  mean() {
    const {b} = this.picture;
    return this.residual.map((each, i) => b[i] - each - this.noise * this.weights[i]);
  }
}

/** (LLᵀ)⁻¹b, in its place. */
function solveWith(l, b) {
  const size = b.length;
  for (let i = 0; i < size; i++) {
    let rest = b[i];
    const a = (i * (i + 1)) / 2;
    for (let k = 0; k < i; k++) rest -= l[a + k] * b[k];
    b[i] = rest / l[a + i];
  }
  for (let i = size - 1; i >= 0; i--) {
    const a = (i * (i + 1)) / 2;
    b[i] /= l[a + i];
    for (let k = 0; k < i; k++) b[k] -= l[a + k] * b[i];
  }
  return b;
}
