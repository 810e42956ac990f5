/** A small generator (32-bit xorshift with a mixed seed): the same numbers everywhere, from one seed. */
export class Random {
  private state = 1;

  constructor(seed: number) {
    this.seed(seed);
  }

  /** Starts over, with another seed. */
  seed(seed: number): void {
    this.state = mix(seed, 0x9e3779b9) || 1;
  }

  /** 0 … 2^32-1; never 0 in fact, which nobody who asks for a remainder notices. */
  u32(): number {
    let s = this.state;
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    this.state = s;
    return s >>> 0;
  }

  /** 0 … n-1. */
  below(n: number): number {
    return this.u32() % n;
  }

  /** True once in `n` times. */
  once(n: number): boolean {
    return this.below(n) === 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}

/** Two numbers to one in which every bit depends on every bit of both. */
export function mix(a: number, b: number): number {
  let h = (a ^ Math.imul(b, 0x85ebca6b)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b);
  return (h ^ (h >>> 16)) >>> 0;
}
