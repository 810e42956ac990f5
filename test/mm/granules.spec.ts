import { expect } from 'chai';
import { Granules } from '../../src/engine/typescript/mm/granules.js';

/** What every engine's allocator of table granules can do. */
interface GranuleAllocator {
  /** Index of the first of `count` adjacent granules, or -1. */
  alloc(count: number): number;
  release(start: number, count: number): void;
  clear(): void;
  readonly used: number;
}

const makers: Record<string, (total: number) => GranuleAllocator> = {
  typescript: (total) => new Granules(total, true),
};

/** The contract, granule by granule. */
class Slow implements GranuleAllocator {
  used = 0;
  private cursor = 0;
  private readonly taken: boolean[];

  constructor(total: number) {
    this.taken = new Array(total).fill(false);
  }

  alloc(count: number): number {
    for (const from of [this.cursor, 0])
      for (let start = from; start + count <= this.taken.length; start++)
        if (!this.taken.slice(start, start + count).includes(true)) {
          this.taken.fill(true, start, start + count);
          this.used += count;
          this.cursor = start + count;
          return start;
        }
    return -1;
  }

  release(start: number, count: number): void {
    this.taken.fill(false, start, start + count);
    this.used -= count;
    this.cursor = start;
  }

  clear(): void {
    this.taken.fill(false);
    this.used = 0;
    this.cursor = 0;
  }
}

/** Pseudo-random integers below a bound: the same sequence in every run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

for (const [engine, make] of Object.entries(makers))
  describe(`granules (${engine})`, () => {
    it('gives runs one behind the other', () => {
      const granules = make(64);
      expect(granules.alloc(3)).to.equal(0);
      expect(granules.alloc(30)).to.equal(3);
      expect(granules.alloc(31)).to.equal(33);
      expect(granules.alloc(1)).to.equal(-1);
      expect(granules.used).to.equal(64);
    });

    it('searches from where a run was released', () => {
      const granules = make(16);
      for (let i = 0; i < 4; i++) granules.alloc(4);
      granules.release(4, 4);
      granules.release(12, 4);
      expect(granules.alloc(2)).to.equal(12);
      expect(granules.alloc(2)).to.equal(14);
      expect(granules.alloc(2)).to.equal(4);
    });

    it('does not wrap a run', () => {
      const granules = make(40);
      for (let i = 0; i < 5; i++) granules.alloc(8);
      granules.release(0, 8);
      granules.release(32, 8);
      expect(granules.alloc(9)).to.equal(-1);
      expect(granules.alloc(8)).to.equal(32);
      expect(granules.alloc(8)).to.equal(0);
    });

    it('finds a run that spans the cursor', () => {
      const granules = make(8);
      granules.alloc(4);
      granules.alloc(4);
      granules.release(4, 4);
      granules.release(0, 4);
      granules.alloc(2);
      granules.release(0, 2);
      granules.alloc(3);
      granules.release(0, 3);
      expect(granules.alloc(8)).to.equal(0);
    });

    it('works without any granule and with the last one of a word', () => {
      expect(make(0).alloc(1)).to.equal(-1);
      for (const total of [1, 31, 32, 33, 64]) {
        const granules = make(total);
        expect(granules.alloc(total + 1)).to.equal(-1);
        expect(granules.alloc(total)).to.equal(0);
        granules.release(0, total);
        expect(granules.used).to.equal(0);
      }
    });

    it('starts over after clear', () => {
      const granules = make(100);
      granules.alloc(50);
      granules.clear();
      expect(granules.used).to.equal(0);
      expect(granules.alloc(100)).to.equal(0);
    });

    it('does what the contract says, at random', () => {
      for (const total of [1, 7, 32, 61, 200, 256]) {
        const next = random(total);
        const granules = make(total);
        const slow = new Slow(total);
        const live: { start: number; count: number }[] = [];
        for (let step = 0; step < 4000; step++) {
          if (next(5) < 3 || live.length === 0) {
            const count = 1 + next(next(8) === 0 ? total : Math.min(total, 6));
            const start = granules.alloc(count);
            expect(start, `step ${step} of ${total}: alloc(${count})`).to.equal(slow.alloc(count));
            if (start >= 0) live.push({ start, count });
          } else {
            const [{ start, count }] = live.splice(next(live.length), 1);
            granules.release(start, count);
            slow.release(start, count);
          }
          expect(granules.used).to.equal(slow.used);
        }
      }
    });
  });

describe('granules (typescript), checked', () => {
  it('throw when a run is released twice', () => {
    const granules = new Granules(64, true);
    granules.alloc(40);
    granules.release(0, 40);
    expect(() => granules.release(0, 40)).to.throw(RangeError, /granule 0 .*not taken/);
    expect(() => granules.release(60, 5)).to.throw(RangeError, /do not exist/);
  });
});
