/** Why a forecast goes flat: a mean is a sum of bumps that all end; bands of f and of new data. */

import {backward, cholesky, dot, forward, matrix} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {number} from "./plane.js";
import {BLUE, PURPLE, INK, MUTED, ORANGE, RED, View, half} from "./view.js";

/** every third place is one of the data; variance of the constant and the slope of a line; half a band of 95%, in sd */
const EVERY = 3,
  LINE = 100,
  BAND = 1.96;

/**
 * Mean and standard deviations of f, and of a new observation.
 * @param {{x: ArrayLike<number>, y: ArrayLike<number>}} data
 * @param {(x: number, z: number) => number} kernel
 * @param {number} noise σ²
 * @param {ArrayLike<number>} grid
 */
export function predicted({x, y}, kernel, noise, grid) {
  const factor = cholesky(matrix(x.length, x.length, (i, j) => kernel(x[i], x[j]) + (i === j ? noise : 0))),
    weights = backward(factor, forward(factor, y));
  const mean = new Float64Array(grid.length),
    ofF = new Float64Array(grid.length);
  grid.forEach((z, i) => {
    const cross = Float64Array.from(x, (each) => kernel(z, each)),
      known = forward(factor, cross);
    mean[i] = dot(weights, cross);
    ofF[i] = Math.sqrt(Math.max(0, kernel(z, z) - dot(known, known)));
  });
  return {weights, mean, ofF, ofY: ofF.map((each) => Math.sqrt(each * each + noise))};
}

/** The data of a state, what is held out, and the prediction on a grid and at all places. */
export function forecast({end, kernel, lengthscale, noise, drift}, {x, y}) {
  const stationary = kernelNamed(kernel, lengthscale),
    // a line of unknown height and slope, with a wide prior
    k = drift === "line" ? (a, b) => stationary(a, b) + LINE * (1 + a * b) : stationary;
  const rows = x.map((_, i) => i),
    isData = (i) => i % EVERY === 0 && x[i] <= end + 1e-9,
    pick = (list) => Float64Array.from(rows.filter(isData), (i) => list[i]);
  const data = {x: pick(x), y: pick(y)},
    grid = Float64Array.from({length: 161}, (_, i) => (x.at(-1) * i) / 160),
    others = rows.filter((i) => i % EVERY !== 0);
  const at = predicted(data, k, noise, Float64Array.from(others, (i) => x[i]));
  const share = (sd, isIn) => {
    const seen = others.flatMap((i, j) => (isIn(x[i]) ? [Math.abs(y[i] - at.mean[j]) < BAND * sd[j]] : []));
    return {inside: seen.filter(Boolean).length, of: seen.length};
  };
  const among = (z) => z <= end,
    beyond = (z) => z > end;
  return {
    data,
    grid,
    stationary,
    others: others.map((i) => [x[i], y[i]]),
    ...predicted(data, k, noise, grid),
    among: {f: share(at.ofF, among), y: share(at.ofY, among)},
    beyond: {f: share(at.ofF, beyond), y: share(at.ofY, beyond)},
  };
}

export class ForecastView extends View {
  static longest = {far: "3.4", inY: "45 of 48", inF: "45 of 48"};

  constructor(place, state, face) {
    super(place, state, face);
    this.forecast = this.plane("The forecast: drag the end of the data", () => 320, true);
    this.widths = this.plane("Standard deviations: of f, and of a new y", (width) => half(width) - 30);
    this.bumps = this.plane("The mean is a sum of bumps, and all bumps end", (width) => half(width) - 30);
  }

  draw(values) {
    const key = JSON.stringify(values);
    if (key !== this._drawn) [this._drawn, this._now] = [key, forecast(values, this.face.given)];
    const now = this._now;
    this._drawForecast(now, values);
    this._drawWidths(now, values);
    this._drawBumps(now, values);
    const of = ({inside, of}) => `${inside} of ${of}`;
    return {
      inY: of(now.among.y),
      inF: of(now.among.f),
      far: number((now.grid.at(-1) - values.end) / values.lengthscale, 2),
      mean: number(now.mean.at(-1), 2),
      sd: number(now.ofF.at(-1), 2),
    };
  }

  _drawForecast({data, grid, mean, ofF, ofY, others, among, beyond}, {end, drift}) {
    const chart = this.forecast,
      last = grid.at(-1);
    chart.begin({x: [-0.02 * last, 1.02 * last], y: drift === "line" ? [-4, 5] : [-3, 3], xLabel: "x", yLabel: "y"});
    for (const [sd, opacity, of] of [
      [ofY, 0.13, "inY"],
      [ofF, 0.28, "inF sd"],
    ]) {
      const side = (sign) => mean.map((each, i) => each + sign * BAND * sd[i]);
      chart.area(grid, side(-1), side(1), {color: BLUE, opacity, of});
    }
    chart.line([end, end], chart.y, {color: MUTED, dash: "2 5", width: 2, of: "end far"});
    for (const [x, y] of others) chart.dot(x, y, {color: INK, size: 2.2}, `held out: ${number(y, 3)}`);
    data.x.forEach((x, i) => chart.dot(x, data.y[i], {color: RED, size: 4.5}, `data: ${number(data.y[i], 3)}`));
    chart.line(grid, mean, {color: BLUE, width: 3, of: "mean"});
    chart.end();
    chart.legend([
      ["mean", BLUE, "line"],
      ["dark: 95% of f; light: 95% of y", BLUE, "square"],
      ["data", RED, "dot"],
      ["new observations", INK, "dot"],
    ]);
    chart.note(
      `new observations in the band of y: ${among.y.inside} of ${among.y.of} among the data, ${beyond.y.inside} of ${beyond.y.of} beyond; ` +
        `in the band of f: ${among.f.inside} and ${beyond.f.inside}`,
    );
    this.grip(chart, "end", {x: chart.sx(end), y: chart.top + 12, label: "the end of the data"}, (px) => chart.fromX(px));
  }

  _drawWidths({grid, ofF, ofY}, {noise}) {
    const chart = this.widths,
      last = grid.at(-1),
      most = Math.min(3, Math.max(...ofY)),
      root = Math.sqrt(noise);
    chart.begin({x: [-0.02 * last, 1.02 * last], y: [0, Math.max(1.25, 1.1 * most)], xLabel: "x", yLabel: "standard deviation"});
    for (const [each, of] of [[1, null], [root, "noise"]]) chart.line([0, last], [each, each], {color: MUTED, dash: "6 4", width: 1.2, of});
    chart.line(grid, ofY, {color: ORANGE, of: "inY"});
    chart.line(grid, ofF, {color: BLUE, of: "inF sd"});
    chart.end();
    chart.legend([
      ["of f", BLUE, "line"],
      ["of y, √(sd² + σ²)", ORANGE, "line"],
      ["prior of f, 1, and σ", MUTED, "dashes"],
      ["noise: drag", INK, "ring dashed"],
    ]);
    const at = {x: chart.sx(0.03 * last), y: chart.sy(root), label: "the noise"};
    this.grip(chart, "noise", at, (px, py) => Math.max(1e-3, chart.fromY(py)) ** 2);
    chart.note("more data shrink the band of f to a line, and never that of y");
  }

  _drawBumps({data, grid, weights, stationary}, {end, lengthscale}) {
    const chart = this.bumps,
      last = grid.at(-1),
      curves = [...weights].map((w, i) => grid.map((z) => w * stationary(z, data.x[i]))),
      sum = grid.map((_, j) => curves.reduce((total, each) => total + each[j], 0)),
      most = Math.max(1, ...sum.map(Math.abs));
    chart.begin({x: [-0.02 * last, 1.02 * last], y: [-1.6 * most, 1.6 * most], xLabel: "x", yLabel: "wᵢ k(xᵢ, x)"});
    const inside = (each) => (Math.abs(each) <= 1.6 * most ? each : NaN);
    for (const each of curves) chart.line(grid, each.map(inside), {color: PURPLE, width: 1, opacity: 0.6, of: "lengthscale"});
    chart.line(grid, sum, {color: BLUE, width: 3, of: "mean"});
    chart.end();
    chart.legend([
      ["each bump", PURPLE, "line"],
      ["their sum", BLUE, "line"],
      ["lengthscale: drag", INK, "ring dashed"],
    ]);
    chart.note("a bump is one lengthscale wide; a few lengthscales beyond the data nothing is left to add");
    const x = Math.min(end + lengthscale, last),
      spec = {x: chart.sx(x), y: chart.sy(0), label: "the lengthscale", of: "lengthscale"};
    this.grip(chart, "lengthscale", spec, (px) => Math.max(0.01, chart.fromX(px) - end));
  }
}
