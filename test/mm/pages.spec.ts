import { expect } from 'chai';
import fc from 'fast-check';
import { NONE } from '../../src/engine/typescript/mm/pages.js';
import { KINDS } from '../support/allocators.js';
import { runs } from '../support/choices.js';

/** Which pages are taken, and nothing else. */
class Slow {
  readonly taken: boolean[];

  constructor(total: number) {
    this.taken = new Array(total).fill(false);
  }

  free(page: number, pages: number): boolean {
    return page + pages <= this.taken.length && !this.taken.slice(page, page + pages).includes(true);
  }

  /** Whether there is a free block of so many pages at a multiple of its size. */
  has(pages: number): boolean {
    for (let page = 0; page < this.taken.length; page += pages) if (this.free(page, pages)) return true;
    return false;
  }
}

type Step = [kind: 'alloc' | 'take' | 'free' | 'reset', order: number, pick: number];
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.tuple(
    fc.oneof(
      { weight: 20, arbitrary: fc.constantFrom('alloc' as const, 'free' as const) },
      { weight: 4, arbitrary: fc.constant('take' as const) },
      { weight: 1, arbitrary: fc.constant('reset' as const) },
    ),
    fc.nat(4),
    fc.nat(99),
  ),
  { maxLength: 120, size: 'max' },
);
const totals = fc.integer({ min: 0, max: 70 });

for (const kind of KINDS)
  describe(`the page allocator (${kind.name})`, () => {
    before(() => kind.load());

    it('gives blocks at multiples of their size, none twice, finds one while there is one, and counts', () => {
      fc.assert(
        fc.property(totals, steps, (total, list) => {
          const pages = kind.pages(total);
          const slow = new Slow(total);
          let live: { page: number; order: number }[] = [];
          let failures = 0;
          const took = (page: number, order: number) => {
            expect(page % 2 ** order, 'alignment').to.equal(0);
            expect(slow.free(page, 2 ** order), 'nobody has it').to.equal(true);
            slow.taken.fill(true, page, page + 2 ** order);
            live.push({ page, order });
          };
          for (const [what, order, pick] of list) {
            const size = 2 ** order;
            if (what === 'reset') {
              pages.reset();
              slow.taken.fill(false);
              live = [];
            } else if (what === 'take' && total > 0) {
              const page = Math.floor((pick % total) / size) * size;
              const there = slow.free(page, size);
              expect(pages.take(page, order)).to.equal(there);
              if (there) took(page, order);
            } else if (what === 'alloc' || live.length === 0) {
              const there = slow.has(size);
              const page = pages.alloc(order);
              expect(page !== NONE, `${size} of ${total}`).to.equal(there);
              if (page === NONE) failures++;
              else took(page, order);
            } else {
              const [block] = live.splice(pick % live.length, 1);
              pages.free(block.page, block.order);
              slow.taken.fill(false, block.page, block.page + 2 ** block.order);
            }
            expect(pages.taken).to.equal(slow.taken.filter(Boolean).length);
            expect(pages.allocs - pages.frees).to.equal(live.length);
            expect(pages.failures).to.equal(failures);
          }
          for (const { page, order } of live) pages.free(page, order);
          expect(pages.taken).to.equal(0);
          expect(pages.allocs).to.equal(pages.frees);
          // Everything is one again: the largest block that fits can be had.
          if (total > 0) expect(pages.alloc(31 - Math.clz32(total))).to.equal(0);
          kind.checkGuards();
        }),
        runs(200),
      );
    });

    it('takes a given block only if it is free', () => {
      const pages = kind.pages(16);
      expect(pages.take(5, 0)).to.equal(true);
      expect(pages.take(4, 1)).to.equal(false);
      expect(pages.take(5, 0)).to.equal(false);
      expect(pages.take(8, 3)).to.equal(true);
      expect(pages.taken).to.equal(9);
      pages.free(5, 0);
      pages.free(8, 3);
      expect(pages.alloc(4)).to.equal(0);
    });

    it('makes one block of what comes back', () => {
      const pages = kind.pages(8);
      const all = Array.from({ length: 8 }, () => pages.alloc(0));
      expect(all).to.deep.equal([0, 1, 2, 3, 4, 5, 6, 7]);
      expect(pages.alloc(0)).to.equal(NONE);
      expect(pages.failures).to.equal(1);
      for (const page of [3, 0, 7, 1, 2, 5, 4]) pages.free(page, 0);
      expect(pages.alloc(3)).to.equal(NONE);
      pages.free(6, 0);
      expect(pages.alloc(3)).to.equal(0);
    });
  });

describe('the page allocators of both engines', () => {
  before(() => Promise.all(KINDS.map((kind) => kind.load())));

  it('make the same choices', () => {
    fc.assert(
      fc.property(totals, steps, (total, list) => {
        const runOn = (kind: (typeof KINDS)[number]) => {
          const pages = kind.pages(total);
          const live: [number, number][] = [];
          return list.map(([what, order, pick]) => {
            if (what === 'reset') {
              pages.reset();
              live.length = 0;
            } else if (what === 'free' && live.length > 0) {
              const [[page, of]] = live.splice(pick % live.length, 1);
              pages.free(page, of);
            } else {
              const wanted = (pick >> order) << order;
              const page = what !== 'take' ? pages.alloc(order) : pages.take(wanted, order) ? wanted : NONE;
              if (page !== NONE) live.push([page, order]);
              return page;
            }
            return [pages.taken, pages.allocs, pages.frees, pages.failures];
          });
        };
        const [first, ...others] = KINDS.map(runOn);
        for (const other of others) expect(other).to.deep.equal(first);
      }),
      runs(150),
    );
  });
});
