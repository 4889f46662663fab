/** Sample paths and the RKHS norm: as points double, that of a sample grows, and that of a smooth function settles. */

import {backward, cholesky, forward, matrix} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {numbersOf} from "./packing.js";
import {number} from "./plane.js";
import {BLUE, MUTED, ORANGE, View} from "./view.js";

/** doublings of the number of points, from 3 to 129 */
const MOST = 6;
export const pointsAfter = (doublings) => 2 ** (doublings + 1) + 1;

/** Even places of [0, 1], so ordered that after every doubling the first ones are even. */
export function nestedPlaces(doublings = MOST) {
  const found = [0, 1, 0.5];
  for (let gap = 0.5; found.length < pointsAfter(doublings); gap /= 2) {
    for (let x = gap / 2; x < 1; x += gap) found.push(x);
  }
  return Float64Array.from(found);
}

/**
 * A sample f = Lz and a sine on all places. With K = LLᵀ and v = L⁻¹f, the shortest function through the first n values
 * has the squared norm v₁² + … + vₙ², because L is triangular.
 */
export function samplePath({kernel, lengthscale, waves, sample}, draws) {
  const x = nestedPlaces(),
    k = kernelNamed(kernel, lengthscale),
    factor = cholesky(matrix(x.length, x.length, (i, j) => k(x[i], x[j]))),
    z = draws.slice((sample - 1) * x.length, sample * x.length);
  const path = Float64Array.from(factor, (row, i) => row.slice(0, i + 1).reduce((sum, each, j) => sum + each * z[j], 0)),
    sine = x.map((each) => Math.sin(2 * Math.PI * waves * each));
  const side = (f, v) => {
    let sum = 0;
    return {f, v, norms: v.map((each) => (sum += each * each))};
  };
  return {x, k, factor, sample: side(path, z), sine: side(sine, forward(factor, sine))};
}

/** Values of the shortest function through the first n values of a side, at every place of the chart. */
export function shortest({x, k, factor}, {v}, n, grid) {
  const weights = backward(factor.slice(0, n).map((row) => row.slice(0, n)), v.slice(0, n));
  return grid.map((z) => weights.reduce((sum, each, i) => sum + each * k(z, x[i]), 0));
}

const SIDES = [
  ["sample", "a sample", BLUE, "dot", "sample kernel lengthscale"],
  ["sine", "a sine", ORANGE, "square", "sine waves"],
];

export class SamplePathsView extends View {
  static longest = {count: "129"};

  constructor(place, state, face) {
    super(place, state, face);
    this._draws = numbersOf(face.given.draws);
    this._grid = Float64Array.from({length: 161}, (_, i) => i / 160);
    this.functions = this.plane("The shortest function through n values of each");
    this.norms = this.plane("Its squared norm: drag the number of points");
  }

  draw(values) {
    const {doublings, ...of} = values,
      key = JSON.stringify(of);
    if (key !== this._drawn) [this._drawn, this._now] = [key, samplePath(of, this._draws)];
    const n = pointsAfter(doublings);
    this._drawFunctions(this._now, n);
    this._drawNorms(this._now, n, values);
    const figures = Object.fromEntries(SIDES.map(([name]) => [name, number(this._now[name].norms[n - 1], 3)]));
    return {...figures, count: n};
  }

  _drawFunctions(now, n) {
    const chart = this.functions,
      order = [...now.x.keys()].sort((i, j) => now.x[i] - now.x[j]),
      x = order.map((i) => now.x[i]);
    const high = 0.5 * Math.ceil(2 * Math.max(1.2, ...now.sample.f.map(Math.abs)));
    chart.begin({x: [-0.02, 1.02], y: [-high, high], xLabel: "x", yLabel: "function value"});
    for (const [name, title, color, shape, of] of SIDES) {
      const {f} = now[name];
      chart.line(x, order.map((i) => f[i]), {color, width: 1.2, opacity: 0.55, of});
      chart.line(this._grid, shortest(now, now[name], n, this._grid), {color, width: 3, of: name});
      if (n <= 33) for (let i = 0; i < n; i++) chart.dot(now.x[i], f[i], {color, shape, size: 4, of: "count"}, `${title} at ${number(now.x[i])}: ${number(f[i])}`);
    }
    chart.end();
    chart.legend(SIDES.map(([, title, color, shape]) => [`${title}, and the shortest function`, color, shape]));
    chart.note("thin: the two functions; thick: the function of least norm in H through the points");
  }

  _drawNorms(now, n, {doublings}) {
    const chart = this.norms,
      counts = Array.from({length: MOST + 1}, (_, k) => pointsAfter(k)),
      all = SIDES.flatMap(([name]) => counts.map((each) => now[name].norms[each - 1]));
    chart.begin({
      x: [0.3, 2.3],
      y: [-0.3, Math.log10(Math.max(200, ...all)) + 0.1],
      log: true,
      powers: true,
      xLabel: "number of points n",
      yLabel: "fᵀK⁻¹f",
    });
    const along = counts.map(Math.log10);
    chart.line([along[doublings], along[doublings]], chart.y.map((each) => 10 ** each), {color: MUTED, width: 1.5});
    chart.line(along, counts, {color: MUTED, dash: "2 5", of: "count"});
    for (const [name, title, color, shape] of SIDES) {
      const values = counts.map((each) => now[name].norms[each - 1]).map((each) => (each > 0.5 ? each : NaN));
      chart.line(along, values, {color, of: name});
      counts.forEach((each, k) => chart.dot(along[k], values[k], {color, shape, size: each === n ? 6.5 : 3.5, of: each === n ? `${name} doublings` : null}, `${title}, n = ${each}: ${number(values[k], 3)}`));
    }
    chart.end();
    chart.legend([...SIDES.map(([, title, color]) => [title, color, "line"]), ["n", MUTED, "dots"]]);
    chart.note("fᵀK⁻¹f of a sample is z₁² + … + zₙ², of which the mean is n");
    const nearest = (px) => Math.log2((10 ** chart.fromX(px) - 1) / 2);
    const spec = {x: chart.sx(along[doublings]), y: chart.top + 12, label: "the number of points", value: `${n} points`};
    this.grip(chart, "doublings", spec, nearest);
  }
}
