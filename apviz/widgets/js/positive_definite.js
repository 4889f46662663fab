/** Positive definite, yet Cholesky fails: pivots and eigenvalues of K, and the rounding of its entries. */

import {backward, forward, matrix} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {finished} from "./partitions.js";
import {PALE, tiny} from "./plane.js";
import {eigenvaluesOf} from "./spectra.js";
import {BLUE, INK, MUTED, ORANGE, RED, View} from "./view.js";

/** how numbers of a type are rounded, and the relative size of that */
const TYPES = {
  float32: {round: Math.fround, epsilon: 2 ** -23, color: ORANGE},
  float64: {round: Number, epsilon: 2 ** -52, color: BLUE},
};
/** lowest number that is drawn */
const LOWEST = 1e-20;

/** K = k(X, X) + τI over n even places of [0, 1], every entry rounded. */
export function gramOf({points, kernel, lengthscale, jitter, dtype}) {
  const k = kernelNamed(kernel, lengthscale),
    {round} = TYPES[dtype],
    x = Float64Array.from({length: points}, (_, i) => i / (points - 1));
  return matrix(points, points, (i, j) => round(round(k(x[i], x[j])) + (i === j ? jitter : 0)));
}

/**
 * Cholesky, row by row, every operation rounded to a type.
 * @returns {{pivots: number[], factor: Float64Array[] | null}} the squares of L's diagonal, of which the last is not
 *     positive where it fails
 */
export function roundedCholesky(a, dtype) {
  const {round} = TYPES[dtype],
    factor = [],
    pivots = [];
  for (let i = 0; i < a.length; i++) {
    const own = new Float64Array(a.length);
    factor.push(own);
    for (let j = 0; j <= i; j++) {
      const row = factor[j];
      let rest = a[i][j];
      for (let k = 0; k < j; k++) rest = round(rest - round(own[k] * row[k]));
      if (j < i) own[j] = round(rest / row[j]);
      else {
        pivots.push(rest);
        if (!(rest > 0)) return {pivots, factor: null};
        own[i] = round(Math.sqrt(rest));
      }
    }
  }
  return {pivots, factor};
}

/** Largest difference at the data, of sin 2πx, of a mean that takes jitter for noise: τ|w|, (K + τI)w = b. */
export function missed(factor, jitter) {
  const b = Float64Array.from(factor, (_, i) => Math.sin((2 * Math.PI * i) / (factor.length - 1)));
  return jitter * Math.max(...backward(factor, forward(factor, b)).map(Math.abs));
}

/** All that a state shows. */
export function factorised(values) {
  const gram = gramOf(values),
    types = Object.keys(TYPES).map((dtype) => [dtype, roundedCholesky(gramOf({...values, dtype}), dtype)]);
  const eigenvalues = finished(eigenvaluesOf(gram));
  return {eigenvalues, floor: TYPES[values.dtype].epsilon * eigenvalues[0], ...Object.fromEntries(types)};
}

export class PositiveDefiniteView extends View {
  static longest = {outcome: "works", change: "; the mean misses the data by up to 1.2·10⁻¹⁶"};

  constructor(place, state, face) {
    super(place, state, face);
    this.pivots = this.plane("What each point adds: the pivots of Cholesky");
    this.spectrum = this.plane("Eigenvalues of K as it is stored");
  }

  draw(values) {
    const key = JSON.stringify(values);
    if (key !== this._drawn) [this._drawn, this._now] = [key, factorised(values)];
    const now = this._now,
      {pivots, factor} = now[values.dtype],
      least = now.eigenvalues.at(-1);
    this._drawPivots(now, values);
    this._drawSpectrum(now, values);
    return {
      outcome: factor ? "works" : `fails in row ${pivots.length}`,
      least: tiny(least, 2),
      floor: tiny(now.floor, 2),
      change: !factor ? "" : values.jitter ? `; the mean misses the data by up to ${tiny(missed(factor, values.jitter), 2)}` : "",
    };
  }

  _axes(chart, points, xLabel, yLabel) {
    if (!this.isHeld) this._last = Math.max(6, Math.ceil(points / 10) * 10 + 2);
    chart.begin({x: [0, this._last], y: [Math.log10(LOWEST), 2.3], log: true, whole: true, xLabel, yLabel});
  }

  _drawPivots(now, {points, dtype}) {
    const chart = this.pivots;
    this._axes(chart, points, "row: the points from left to right", "pivot");
    const others = Object.keys(TYPES).filter((name) => name !== dtype),
      look = (name) => (name === dtype ? {width: 3, of: "dtype outcome change"} : PALE);
    for (const name of [...others, dtype]) {
      const {pivots} = now[name],
        {color} = TYPES[name],
        seen = pivots.map((each) => (each > LOWEST ? each : NaN)),
        rows = pivots.map((_, i) => i + 1);
      chart.line(rows, seen, {color, ...look(name)});
      if (name === dtype) rows.forEach((row, i) => chart.dot(row, seen[i], {color, size: 3}, `row ${row}: ${tiny(seen[i], 3)}`));
    }
    for (const name of [...others, dtype]) this._drawFailure(now[name], name, name === dtype && points);
    chart.end();
    chart.legend([
      ...Object.entries(TYPES).map(([name, {color}]) => [`in ${name}`, color, name === dtype ? "line" : "wide"]),
      ["not positive: fails", RED, "diamond"],
      ["points: drag", INK, "ring dashed"],
    ]);
    chart.note("a pivot is the variance of f(xᵢ) that the points before it leave; the computed one has the rounding of K too");
    const spec = {x: chart.sx(points), y: chart.top + 12, label: "the number of points", value: `${points} points`};
    this.grip(chart, "points", spec, (px) => chart.fromX(px));
  }

  /** The pivot that is not positive, with its value where `points` are given. */
  _drawFailure({pivots, factor}, name, points) {
    if (factor) return;
    const chart = this.pivots,
      [row, last] = [pivots.length, pivots.at(-1)],
      size = Math.max(LOWEST, Math.abs(last)),
      look = points ? {size: 7, of: "outcome"} : {size: 4};
    chart.dot(row, size, {color: RED, shape: "diamond", ...look}, `${name} fails in row ${row}: ${tiny(last, 2)}`);
    if (!points) return;
    const isLate = row > 0.6 * points,
      at = {x: (chart.sx(row) + (isLate ? -12 : 12)).toFixed(1), y: (chart.sy(size) - 12).toFixed(1), "text-anchor": isLate ? "end" : "start"};
    chart.marks.draw("text", {...at, class: "name halo", "data-of": "outcome"}, `pivot ${tiny(last, 2)}`);
  }

  _drawSpectrum({eigenvalues, floor}, {points, dtype, jitter}) {
    const chart = this.spectrum,
      {color} = TYPES[dtype],
      values = [...eigenvalues],
      numbers = values.map((_, i) => i + 1),
      above = (each) => (each > LOWEST ? each : NaN);
    this._axes(chart, points, "number, the largest first", "eigenvalue");
    chart.line(chart.x, [floor, floor], {color: MUTED, dash: "6 4", width: 1.5, of: "floor"});
    chart.line(numbers, values.map(above), {color, width: 2, of: "lengthscale"});
    values.forEach((each, i) => {
      const look = each > 0 ? {color, size: 3} : {color: RED, size: 4, hollow: true},
        of = i === points - 1 ? "least" : null;
      chart.dot(i + 1, Math.max(LOWEST, Math.abs(each)), {...look, of}, `eigenvalue ${i + 1}: ${tiny(each, 3)}`);
    });
    chart.end();
    chart.legend([
      ["eigenvalues", color, "line"],
      ["negative, its size", RED, "ring"],
      ["rounding, λmax·ε", MUTED, "dashes"],
      ["jitter: drag", INK, "ring dashed"],
    ]);
    const count = values.filter((each) => each <= 0).length;
    chart.note(`${count || "none"} of ${points} are not positive; below the dashed line an eigenvalue is rounding, and its sign is luck`);
    const spec = {x: chart.left + 14, y: chart.sy(Math.max(LOWEST, jitter)), label: "the jitter"};
    this.grip(chart, "jitter", spec, (px, py) => chart.fromY(py));
  }
}
