import { expect } from 'chai';
import fc from 'fast-check';
import { General } from '../../src/engine/typescript/mm/general.js';
import { NONE } from '../../src/engine/typescript/mm/pages.js';
import { runs } from '../support/choices.js';

const PAGES = 12;
const SHIFT = 4;
const CACHE = 0;

/** Every granule has one owner at most. */
class Owned {
  private readonly taken = new Set<number>();

  take(granule: number, count: number): void {
    for (let i = granule; i < granule + count; i++) {
      if (this.taken.has(i) || i >= PAGES << SHIFT) throw new Error(`granule ${i} was given to two`);
      this.taken.add(i);
    }
  }

  giveBack(granule: number, count: number): void {
    for (let i = granule; i < granule + count; i++) this.taken.delete(i);
  }
}

describe('slab caches and the general allocator over them', () => {
  it('give no granule to two, give everything back, and find room again once all is back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 16 }),
        fc.array(
          fc.tuple(
            fc.constantFrom('run', 'object', 'bulk', 'free', 'freeBulk', 'shrink', 'reopen'),
            fc.nat(99),
          ),
          { maxLength: 150 },
        ),
        (granules, steps) => {
          const general = new General(PAGES, SHIFT, 1);
          general.open(CACHE, granules);
          const owned = new Owned();
          const live: number[] = [];
          const took = (granule: number, atLeast: number) => {
            expect(general.room(granule)).to.be.at.least(atLeast);
            owned.take(granule, general.room(granule));
            live.push(granule);
          };
          for (const [kind, a] of steps)
            if (kind === 'run') {
              const granule = general.allocRun(1 + (a % 40));
              if (granule !== NONE) took(granule, 1 + (a % 40));
            } else if (kind === 'object') {
              const granule = general.alloc(CACHE);
              if (granule !== NONE) took(granule, granules);
            } else if (kind === 'bulk') {
              const out = new Uint32Array(20);
              const n = general.allocBulk(CACHE, out, 1 + (a % 20));
              for (let i = 0; i < n; i++) took(out[i], granules);
            } else if (kind === 'free' && live.length > 0) {
              const [granule] = live.splice(a % live.length, 1);
              owned.giveBack(granule, general.room(granule));
              general.free(granule);
            } else if (kind === 'freeBulk') {
              const some = live.splice(0, a % 9);
              for (const granule of some) owned.giveBack(granule, general.room(granule));
              general.freeBulk(Uint32Array.from(some), some.length);
            } else if (kind === 'shrink') {
              general.shrink();
            } else if (kind === 'reopen') {
              general.close(CACHE);
              general.open(CACHE, granules);
            }
          for (const granule of live) general.free(granule);
          general.shrink();
          expect(general.pages.taken).to.equal(0);
          expect(general.allocRun(8 << SHIFT)).to.equal(0);
        },
      ),
      runs(200),
    );
  });

  it('takes as many at once as one by one, from the same places', () => {
    const [one, many] = [new General(PAGES, SHIFT, 1), new General(PAGES, SHIFT, 1)];
    one.open(CACHE, 3);
    many.open(CACHE, 3);
    const singly = Array.from({ length: 70 }, () => one.alloc(CACHE));
    const out = new Uint32Array(70).fill(NONE);
    expect(many.allocBulk(CACHE, out, 70)).to.equal(60);
    expect([...out]).to.deep.equal(singly);
  });

  it('keeps an empty slab until pages run out', () => {
    const general = new General(2, SHIFT, 1);
    general.open(CACHE, 16);
    general.free(general.alloc(CACHE));
    expect(general.pages.taken).to.equal(1);
    expect(general.allocRun(32)).to.equal(0);
    expect(general.alloc(CACHE)).to.equal(NONE);
  });
});
