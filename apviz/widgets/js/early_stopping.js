/** Early stopping as a filter: what t steps of gradient descent or CG keep of the data, against what noise keeps. */

import {dot, matrix, symmetricEigen, times, transpose} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {KrylovPolynomial, productOf} from "./krylov.js";
import {number} from "./plane.js";
import {BLUE, PURPLE, INK, MUTED, RED, View} from "./view.js";

/** zeros of a polynomial of which the curve can be drawn; steps of the curves, evenly spaced by ratio */
const ZEROS = 10,
  STEPS = [...new Set(Array.from({length: 61}, (_, k) => Math.round(10 ** (k / 15))))];
const kindsOf = ({method}) => [
  ["descent", "gradient descent", BLUE, "dot", "step best error"],
  ["krylov", method, RED, "square", "method krylov other"],
  ["ridge", "noise τ = 1/(ηt)", PURPLE, "diamond", "tau ridge"],
];

/** Eigenvalues of K without noise, the data along its eigenvectors, and what leads from there to a grid. */
export function filtered({kernel, lengthscale, noise, method}, {x, truth, draws, grid}) {
  const k = kernelNamed(kernel, lengthscale),
    y = truth.map((each, i) => each + Math.sqrt(noise) * draws[i]),
    {values, vectors} = symmetricEigen(matrix(x.length, x.length, (i, j) => k(x[i], x[j])));
  const b = Float64Array.from(vectors, (each) => dot(each, y)),
    toGrid = transpose(vectors.map((each) => times(matrix(grid.length, x.length, (i, j) => k(grid[i], x[j])), each)));
  // the polynomial of CG makes Σ (bᵢ²/λᵢ) p(λᵢ)² least, that of MINRES the residual Σ bᵢ² p(λᵢ)²
  const krylov = new KrylovPolynomial(values, method === "CG" ? b : b.map((each, i) => each * Math.sqrt(values[i])));
  return {y, values, b, toGrid, krylov, eta: 1 / values[0]};
}

/** Share of the data along an eigenvector that is kept after t steps. */
export function kept({eta, krylov, values}, kind, i, t) {
  return kind === "krylov" ? 1 - krylov.left(i, t) : filter(eta, kind, values[i], t);
}

function filter(eta, kind, lambda, t) {
  if (kind === "ridge") return lambda / (lambda + 1 / (eta * t));
  // log1p keeps what is small from being lost
  return -Math.expm1(t * Math.log1p(-Math.min(1, eta * lambda)));
}

/** Values on the grid after t steps: the data along each eigenvector, filtered and divided by λ. */
export function fit(now, kind, t) {
  return times(now.toGrid, now.b.map((each, i) => (kept(now, kind, i, t) / now.values[i]) * each));
}

/** Root mean square of the difference to the truth. */
export const errorOf = (found, truth) => Math.sqrt(found.reduce((sum, each, i) => sum + (each - truth[i]) ** 2, 0) / found.length);

export class EarlyStoppingView extends View {
  static longest = {best: "10,000", krylov: "10,000"};

  constructor(place, state, face) {
    super(place, state, face);
    this.functions = this.plane("The function after t steps", () => 290, true);
    this.filters = this.plane("Share of the data that is kept, by eigenvalue");
    this.errors = this.plane("Distance to the truth: drag the step");
  }

  draw(values) {
    const {step, ...of} = values,
      {given} = this.face,
      key = JSON.stringify(of);
    if (key !== this._drawn) {
      this._drawn = key;
      this._now = filtered(of, given);
      this._kinds = kindsOf(values);
      this._curves = this._kinds.map(([kind]) => STEPS.map((t) => errorOf(fit(this._now, kind, t), given.truthOnGrid)));
    }
    const best = Object.fromEntries(this._kinds.map(([kind], k) => {
      const least = Math.min(...this._curves[k]);
      return [kind, {least, t: STEPS[this._curves[k].indexOf(least)]}];
    }));
    this._drawFunctions(this._now, step);
    this._drawFilters(this._now, step);
    this._drawErrors(this._now, values, best);
    return {
      best: best.descent.t.toLocaleString("en"),
      krylov: best.krylov.t.toLocaleString("en"),
      error: number(best.descent.least, 2),
      other: number(best.krylov.least, 2),
      ridge: number(best.ridge.least, 2),
      tau: number(this._now.values[0] / step, 2),
    };
  }

  _drawFunctions(now, step) {
    const chart = this.functions,
      {x, grid, truthOnGrid} = this.face.given;
    chart.begin({x: [-0.02, 1.02], y: [-2.2, 2.2], xLabel: "x", yLabel: "y"});
    chart.line(grid, truthOnGrid, {color: MUTED, dash: "7 4"});
    for (const [kind, , color, , of] of [...this._kinds].reverse()) {
      const inside = fit(now, kind, step).map((each) => (Math.abs(each) <= 2.2 ? each : NaN));
      chart.line(grid, inside, {color, width: kind === "descent" ? 3 : 1.8, of});
    }
    now.y.forEach((each, i) => chart.dot(x[i], each, {color: INK, size: 3.5, of: "noise"}, `y = ${number(each, 3)}`));
    chart.end();
    chart.legend([...this._kinds.map(([, title, color]) => [title, color, "line"]), ["the truth", MUTED, "dashes"], ["data", INK, "dot"]]);
  }

  _drawFilters(now, step) {
    const chart = this.filters,
      {values} = now,
      ends = [Math.log10(values.at(-1)), Math.log10(values[0])],
      along = Float64Array.from({length: 121}, (_, i) => ends[0] + ((ends[1] - ends[0]) * i) / 120);
    chart.begin({x: [ends[0] - 0.1, ends[1] + 0.1], y: [-0.1, 1.25], powers: true, xLabel: "eigenvalue λ of K", yLabel: "share kept"});
    for (const [kind, title, color, shape, of] of this._kinds) {
      const inside = (each) => (each > -0.1 && each < 1.25 ? each : NaN);
      const zeros = kind === "krylov" ? now.krylov.zeros(step) : [],
        between = (lambda) => (kind === "krylov" ? 1 - productOf(zeros, lambda) : filter(now.eta, kind, lambda, step));
      if (zeros.length <= ZEROS) chart.line(along, along.map((each) => inside(between(10 ** each))), {color, width: 1.8, of});
      values.forEach((each, i) => {
        const share = kept(now, kind, i, step);
        chart.dot(Math.log10(each), inside(share), {color, shape, size: 2.6}, `${title}, λ = ${number(each, 3)}: ${number(share, 3)}`);
      });
    }
    chart.end();
    chart.legend(this._kinds.map(([, title, color, shape]) => [title, color, shape]));
    chart.note("large eigenvalues, the smooth functions, pass; small ones, where most is noise, do not");
  }

  _drawErrors(now, {step, method}, best) {
    const chart = this.errors,
      along = STEPS.map(Math.log10),
      all = this._curves.flat(),
      high = Math.min(Math.max(...all), 8 * Math.min(...all));
    chart.begin({
      x: [-0.1, 4.1],
      y: [Math.log10(Math.min(...all)) - 0.08, Math.log10(high) + 0.08],
      log: true,
      powers: true,
      xLabel: "steps t",
      yLabel: "RMSE",
    });
    chart.line([Math.log10(step), Math.log10(step)], [10 ** chart.y[0], 10 ** chart.y[1]], {color: MUTED, width: 1.5});
    this._kinds.forEach(([kind, title, color, shape, of], k) => {
      chart.line(along, this._curves[k].map((each) => (each <= high ? each : NaN)), {color, of});
      const {t, least} = best[kind];
      chart.dot(Math.log10(t), least, {color, shape, size: 6, of}, `${title}: best after ${t} steps, ${number(least, 3)}`);
    });
    chart.end();
    chart.legend(this._kinds.map(([, title, color, shape]) => [`${title}, its best`, color, shape]));
    chart.note(`later steps fit the noise; ${method === "CG" ? "CG does from the second on" : "MINRES needs fewer steps than descent, and passes its best sooner"}`);
    const spec = {x: chart.sx(Math.log10(step)), y: chart.top + 12, label: "the step"};
    this.grip(chart, "step", spec, (px) => 10 ** chart.fromX(px));
  }
}
