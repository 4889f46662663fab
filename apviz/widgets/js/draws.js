/** What PyTorch draws with a seed, so that a random rule takes here what it takes in Python. */

/** Whole numbers of 32 bits by the Mersenne Twister (Matsumoto & Nishimura 1998), `torch.Generator`'s on a CPU. */
export class Draws {
  /** @param {number} seed a whole number from 0 */
  constructor(seed) {
    this._state = new Uint32Array(624);
    this._next = 624;
    this._state[0] = seed;
    for (let i = 1; i < 624; i++) {
      const before = this._state[i - 1];
      this._state[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
    }
  }

  next() {
    const s = this._state;
    if (this._next === 624) {
      for (let i = 0; i < 624; i++) {
        const y = (s[i] & 0x80000000) | (s[(i + 1) % 624] & 0x7fffffff);
        s[i] = s[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this._next = 0;
    }
    let y = s[this._next++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** A whole number from 0 to m − 1: `torch.randint(m, ())`. */
  below(m) {
    return this.next() % m;
  }

  /** All numbers from 0 to n − 1 in random order: `torch.randperm(n)`. @returns {number[]} */
  permutation(n) {
    const order = Array.from({length: n}, (_, i) => i);
    for (let i = 0; i < n - 1; i++) {
      const j = i + this.below(n - i);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

/** Draws block after block as a random rule of `apviz.rules` does, which does not look at the residual. */
export function drawnBlocks(rule, blocks, seed = 0) {
  const draws = new Draws(seed);
  let order = [];
  return () => {
    if (rule === "random") return draws.below(blocks);
    if (!order.length) order = draws.permutation(blocks);
    return order.pop();
  };
}

/** `count` blocks in the order in which a random rule draws them; other rules stay a name. */
export function drawnOrder(rule, blocks, count, seed = 0) {
  if (!["random", "shuffled"].includes(rule)) return rule;
  const next = drawnBlocks(rule, blocks, seed);
  return Array.from({length: count}, next);
}
