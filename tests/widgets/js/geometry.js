// what the agreement test asks of the modules: situations as plain values in, numbers out
({
  trajectory({x, b, kernel, lengthscale, noise, sets, rule, steps, number, block, z}) {
    const {Span, kernelNamed, Trajectory, givenBlocks, stepGeometry, blockSpectrum} = here;
    const span = new Span(x, kernelNamed(kernel, lengthscale), noise);
    const found = new Trajectory(span, b, givenBlocks(sets), rule, steps);
    const geometry = stepGeometry(found, number);
    const spectrum = blockSpectrum(
      span,
      found.blocks.map(({solved}) => solved),
    );
    return {
      gram: span.gram,
      factor: span.factor,
      goal: found.goal,
      inner: span.inner(found.goal, Float64Array.from(b)),
      projection: span.project(found.goal, block),
      values: span.values(found.goal, Float64Array.from(z)),
      solved: found.blocks.map(({solved}) => solved),
      owned: found.blocks.map(({owned}) => owned),
      taken: found.steps.map(({block}) => block),
      weights: found.steps.map(({weights}) => weights),
      residuals: found.steps.map(({residual}) => residual),
      decreases: found.steps.map(({energyDecrease}) => energyDecrease),
      errors: found.errors(),
      norms: found.residualNorms(),
      geometry,
      spectrum,
    };
  },
  twoBlocks({points, distance, shared, kernel, lengthscale, noise, b, steps}) {
    const {Span, kernelNamed, Trajectory, givenBlocks, Angles, twoBlocks, sweepsOf} = here;
    const blocks = twoBlocks(points, distance, shared);
    const span = new Span(blocks.x, kernelNamed(kernel, lengthscale), noise);
    const angles = new Angles(span, blocks.first, blocks.second);
    const solve = (b) => {
      const found = new Trajectory(span, b, givenBlocks([blocks.first, blocks.second]), "cyclic", steps);
      return sweepsOf(found, angles.contraction);
    };
    const worst = angles.worstCaseRhs();
    return {
      blocks,
      cosines: angles.cosines,
      angles: angles.all,
      friedrichs: angles.friedrichs,
      contraction: angles.contraction,
      pair: angles.pair(),
      worst,
      sweeps: solve(b),
      worstSweeps: solve(worst),
    };
  },
  // blocks of neighbours, with margins, by a rule
  player({x, b, kernel, lengthscale, noise, size, overlap, rule, steps}) {
    const {Span, kernelNamed, Trajectory, blocksWithMargins, sequential, drawnOrder, blockSpectrum} = here;
    const span = new Span(x, kernelNamed(kernel, lengthscale), noise);
    const places = x.map((each) => [each]);
    const blocks = blocksWithMargins(places, sequential(span.n, size), overlap);
    const found = new Trajectory(span, b, blocks, drawnOrder(rule, blocks.length, steps), steps);
    const solved = found.blocks.map(({solved}) => solved);
    return {
      solved,
      goal: found.goal,
      taken: found.steps.map(({block}) => block),
      weights: found.steps.map(({weights}) => weights),
      residuals: found.steps.map(({residual}) => residual),
      decreases: found.steps.map(({energyDecrease}) => energyDecrease),
      perBlock: found.steps.map((_, j) => found.decreasePerBlock(j)),
      errors: found.errors(),
      kappaPrime: blockSpectrum(span, solved).kappaPrime,
    };
  },
  comparison({x, b, kernel, lengthscale, noise, size, steps, seed}) {
    const {Span, kernelNamed, RuleComparison, RULES} = here;
    const span = new Span(x, kernelNamed(kernel, lengthscale), noise);
    const found = new RuleComparison(span, b, size, steps, seed);
    return {
      steps: found.steps,
      blocks: found.blocks,
      errors: found.errors,
      lambdaMaxBlock: found.lambdaMaxBlock,
      rankings: Array.from({length: found.steps + 1}, (_, j) => found.ranking(j)),
      suboptimal: found.suboptimalUpdates(),
      choices: RULES.map((rule) => Array.from({length: found.steps + 1}, (_, j) => found.choices(rule, j))),
    };
  },
  orders: ({rule, blocks, count, seed}) => here.drawnOrder(rule, blocks, count, seed),
  space({azimuth, elevation, centre, half, places}) {
    const place = document.body.appendChild(document.createElement("div"));
    const space = new here.Space(
      place,
      "space",
      () => 300,
      () => {},
    );
    Object.assign(space, {azimuth, elevation});
    space.begin(Float64Array.from(centre), half);
    const found = {scale: space.scale, eye: space.eye, pixels: places.map((each) => space.at(Float64Array.from(each)))};
    const [right, down] = found.pixels[0].map((each, i) => each - found.pixels[1][i]);
    return {...found, move: space.moveOf(right, down)};
  },
  photograph({rows, columns, grey, partition, size, targets, ...settings}) {
    const {Picture, PictureSolve, finished} = here;
    const picture = new Picture(rows, columns, grey),
      sets = picture.blocks(partition, size);
    const solve = new PictureSolve(picture, {...settings, sets});
    const states = targets.map((target) => {
      solve.target = target;
      finished(solve.work());
      return {at: solve.at, weights: solve.weights.slice(), residual: solve.residual.slice(), mean: solve.mean()};
    });
    return {
      b: picture.b,
      points: picture.points,
      sets,
      states,
      solved: sets.map((_, block) => [...(solve.solved(block) ?? [])]),
      taken: solve.steps.map(({block}) => block),
      norms: solve.steps.map(({norm}) => norm),
      work: solve.steps.map(({work}) => work),
    };
  },
  borders({sets, residual, most, ...picture}) {
    const {stepsToBorder, sizesByStep} = here;
    const steps = stepsToBorder(picture, sets, most);
    return {steps: [...steps], sizes: sizesByStep(Float64Array.from(residual), steps, most)};
  },
  kappas({data, of}) {
    const points = data.inputs ? null : data.points.map((each) => Float64Array.from(each));
    const system = points ? {points, b: Float64Array.from(data.b)} : here.dataOf(data);
    const found = here.wholeSituation(system, of),
      of_sides = (make) => ["sequential", "kd-tree"].map(make);
    return {
      sets: of_sides((side) => found.sets[side]),
      eigenvalues: found.eigenvalues,
      blocks: of_sides((side) => found.blockValues(side)),
      kappa: found.kappa,
      kappaPrime: of_sides((side) => found.kappaPrime(side)),
      growth: of_sides((side) => found.growth(side)),
      couplings: of_sides((side) => found.couplings[side]),
      errors: of_sides((side) => found.solves[side].errors),
      taken: of_sides((side) => found.solves[side].taken),
    };
  },
  paths({values, given}) {
    const {x, b} = here.system(values, given),
      {cg, ap, bounds} = here.paths(values, given);
    return {
      x,
      b,
      eigenvalues: cg.eigen.values,
      kappa: cg.kappa,
      step: cg.firstCgStep(),
      pair: here.eigenvectorPair(cg, values.plane),
      solved: ap.solved,
      taken: ap.states.map(({block}) => block),
      both: [cg, ap].map((path, k) => ({
        work: path.work,
        errors: path.errors,
        residuals: path.residuals,
        bound: bounds[k],
        coordinates: path.states.map((_, j) => path.coordinates(j)),
        at: Array.from({length: 25}, (_, work) => path.at(work)),
      })),
    };
  },
  draws({seed, count, blocks}) {
    const {Draws, drawnBlocks} = here,
      numbers = new Draws(seed);
    const below = Array.from({length: count}, () => numbers.below(blocks));
    const ruled = (rule) => {
      const next = drawnBlocks(rule, blocks, seed);
      return Array.from({length: count}, next);
    };
    return {below, permutation: new Draws(seed).permutation(count), random: ruled("random"), shuffled: ruled("shuffled")};
  },
  zigzag({angle, start, count, share}) {
    return {residuals: here.zigzag(angle, start, count), legs: here.legsTo(share, angle, start)};
  },
  cholesky(values) {
    const {eigenvalues, ...types} = here.factorised(values),
      {pivots, factor} = types[values.dtype];
    return {eigenvalues, pivots, gram: here.gramOf(values), missed: factor && here.missed(factor, values.jitter)};
  },
  samples({draws, counts, grid, ...values}) {
    const found = here.samplePath(values, draws);
    return {
      x: found.x,
      sides: [found.sample, found.sine].map((side) => ({
        f: side.f,
        norms: side.norms,
        shortest: counts.map((n) => here.shortest(found, side, n, Float64Array.from(grid))),
      })),
    };
  },
  forecast({given, ...values}) {
    const {grid, mean, ofF, ofY, among, beyond} = here.forecast(values, given);
    return {grid, mean, ofF, ofY, inside: [among.f, among.y, beyond.f, beyond.y]};
  },
  stopping({given, steps, ...values}) {
    const found = here.filtered(values, given);
    const fits = (kind) => steps.map((t) => here.fit(found, kind, t));
    return {
      values: found.values,
      fits: ["descent", "krylov", "ridge"].map(fits),
      zeros: steps.map((t) => here.productOf([...found.krylov.zeros(t)], found.values[2])),
      left: steps.map((t) => found.krylov.left(2, t)),
    };
  },
  decompositions({general, symmetric}) {
    const {svd, symmetricEigen} = here;
    return {svd: svd(general), eigen: symmetricEigen(symmetric)};
  },
});
