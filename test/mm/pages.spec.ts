import { expect } from 'chai';
import fc from 'fast-check';
import { NONE, Pages } from '../../src/engine/typescript/mm/pages.js';
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

describe('the page allocator', () => {
  it('gives blocks at multiples of their size, none twice, and finds one while there is one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 70 }),
        fc.array(fc.tuple(fc.boolean(), fc.nat(4), fc.nat(99)), { maxLength: 120 }),
        (total, steps) => {
          const pages = new Pages(total);
          const slow = new Slow(total);
          const live: { page: number; order: number }[] = [];
          for (const [take, order, pick] of steps) {
            const size = 2 ** order;
            if (take || live.length === 0) {
              const there = slow.has(size);
              const page = pages.alloc(order);
              expect(page !== NONE, `${size} of ${total}`).to.equal(there);
              if (page === NONE) continue;
              expect(page % size).to.equal(0);
              expect(slow.free(page, size)).to.equal(true);
              slow.taken.fill(true, page, page + size);
              live.push({ page, order });
            } else {
              const [block] = live.splice(pick % live.length, 1);
              pages.free(block.page, block.order);
              slow.taken.fill(false, block.page, block.page + 2 ** block.order);
            }
            expect(pages.taken).to.equal(slow.taken.filter(Boolean).length);
          }
          for (const { page, order } of live) pages.free(page, order);
          expect(pages.taken).to.equal(0);
          expect(pages.allocs).to.equal(pages.frees);
          // Everything is one again: the largest block that fits can be had.
          if (total > 0) expect(pages.alloc(31 - Math.clz32(total))).to.equal(0);
        },
      ),
      runs(200),
    );
  });

  it('takes a given block only if it is free', () => {
    const pages = new Pages(16);
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
    const pages = new Pages(8);
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
