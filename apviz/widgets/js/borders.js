/** How far pixels are from the border of their block, and how large the residual is there. */

/**
 * Steps along rows and columns from every pixel to the nearest one of another block; `most` means as many or more.
 * @param {{rows: number, columns: number, n: number}} picture
 * @param {number[][]} sets pixels that blocks own
 * @param {number} most
 */
export function stepsToBorder({rows, columns, n}, sets, most) {
  const block = new Int32Array(n),
    steps = new Int32Array(n).fill(most);
  sets.forEach((owned, k) => owned.forEach((i) => (block[i] = k)));
  const hasNeighbour = (i, is) =>
    (i >= columns && is(i - columns)) ||
    (i < (rows - 1) * columns && is(i + columns)) ||
    (i % columns > 0 && is(i - 1)) ||
    (i % columns < columns - 1 && is(i + 1));
  for (let k = 1; k < most; k++) {
    const found = [];
    for (let i = 0; i < n; i++) {
      if (steps[i] === most && hasNeighbour(i, (j) => (k === 1 ? block[j] !== block[i] : steps[j] === k - 1))) found.push(i);
    }
    for (const i of found) steps[i] = k;
  }
  return steps;
}

/** Root mean square of a residual over the pixels at 1, 2, …, `most` steps; NaN where there is no pixel. */
export function sizesByStep(residual, steps, most) {
  const count = new Float64Array(most),
    sum = new Float64Array(most);
  steps.forEach((each, i) => {
    count[each - 1]++;
    sum[each - 1] += residual[i] ** 2;
  });
  return sum.map((each, k) => Math.sqrt(each / count[k]));
}
