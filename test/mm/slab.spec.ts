import { expect } from 'chai';
import fc from 'fast-check';
import { NONE } from '../../src/engine/typescript/mm/pages.js';
import { type GranuleAllocator, KINDS, type Kind } from '../support/allocators.js';
import { runs } from '../support/choices.js';

/** What the allocators manage, and the size of the objects of the one cache. */
interface Setting {
  pages: number;
  shift: number;
  granules: number;
}

const settings: fc.Arbitrary<Setting> = fc
  .tuple(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 6 }), fc.nat())
  .map(([pages, shift, a]) => ({ pages, shift, granules: 1 + (a % (1 << shift)) }));

type Step = [kind: (typeof STEPS)[number], a: number];
const STEPS = [
  'run',
  'long',
  'object',
  'bulk',
  'free',
  'freeBulk',
  'keep',
  'reuse',
  'trim',
  'shrink',
  'reopen',
] as const;
const steps: fc.Arbitrary<Step[]> = fc.array(fc.tuple(fc.constantFrom(...STEPS), fc.nat(999)), {
  maxLength: 150,
  size: 'max',
});

/** Every granule has one owner at most. */
class Owned {
  private readonly taken: Uint8Array;

  constructor(private readonly setting: Setting) {
    this.taken = new Uint8Array(setting.pages << setting.shift);
  }

  take(granule: number, count: number): void {
    if (granule + count > this.taken.length) throw new Error(`granule ${granule}+${count} is outside`);
    if (this.taken.subarray(granule, granule + count).includes(1))
      throw new Error(`granule ${granule}+${count} was given to two`);
    this.taken.fill(1, granule, granule + count);
  }

  giveBack(granule: number, count: number): void {
    this.taken.fill(0, granule, granule + count);
  }

  /** Whether nobody has anything of some block of 2^order pages. */
  hasFree(order: number): boolean {
    const { pages, shift } = this.setting;
    const size = 1 << order;
    for (let page = 0; page + size <= pages; page += size)
      if (!this.taken.subarray(page << shift, (page + size) << shift).includes(1)) return true;
    return false;
  }
}

/** Runs steps on one allocator; `look` sees every object that is handed out and every refusal. */
class Run {
  readonly books: GranuleAllocator;
  readonly live: number[] = [];
  /** Those in the list, the last one last. */
  readonly kept: number[] = [];
  readonly owned: Owned;

  constructor(
    kind: Kind,
    private readonly setting: Setting,
    /** A number of operations in place of one that does as much. */
    private readonly singly = false,
  ) {
    this.books = kind.granules(setting.pages, setting.shift);
    this.books.openCache(setting.granules);
    this.owned = new Owned(setting);
  }

  private allocRun(count: number): number {
    const { books, owned } = this;
    const { shift } = this.setting;
    const page = 1 << shift;
    const granule = books.allocRun(count);
    const room = 2 ** Math.ceil(Math.log2(count));
    expect(books.roomOf(count)).to.equal(room);
    if (granule === NONE) {
      expect(owned.hasFree(Math.max(0, Math.log2(room) - shift)), `no run of ${count}`).to.equal(false);
      return NONE;
    }
    expect(books.room(granule), 'power of two').to.equal(room);
    expect(granule % Math.min(room, page), 'alignment').to.equal(0);
    if (room > page) expect(granule % room, 'alignment of pages').to.equal(0);
    owned.take(granule, room);
    this.live.push(granule);
    return granule;
  }

  private took(granule: number): number {
    const { shift, granules } = this.setting;
    if (granule === NONE) {
      expect(this.owned.hasFree(0), 'no object').to.equal(false);
      return NONE;
    }
    const within = granule % (1 << shift);
    expect(within % granules, 'place in the page').to.equal(0);
    expect(within + granules, 'end of the page').to.be.at.most(1 << shift);
    expect(this.books.room(granule)).to.equal(granules);
    this.owned.take(granule, granules);
    this.live.push(granule);
    return granule;
  }

  private bulk(n: number): number[] {
    const { books } = this;
    if (!this.singly) {
      const got = books.allocBulk(n);
      for (const granule of got) this.took(granule);
      if (got.length < n) this.took(NONE);
      return got;
    }
    const got: number[] = [];
    while (got.length < n) {
      const granule = this.took(books.alloc());
      if (granule === NONE) break;
      got.push(granule);
    }
    return got;
  }

  private released(granule: number): number {
    this.owned.giveBack(granule, this.books.room(granule));
    return granule;
  }

  step([what, a]: Step): unknown {
    const { books, live, kept } = this;
    const { shift, granules } = this.setting;
    switch (what) {
      case 'run':
        return this.allocRun(1 + (a % (1 << shift)));
      case 'long':
        return this.allocRun(1 + (a % (9 << shift)));
      case 'object':
        return this.took(books.alloc());
      case 'bulk':
        return this.bulk(1 + (a % 40));
      case 'free':
        if (live.length > 0) books.free(this.released(live.splice(a % live.length, 1)[0]));
        break;
      case 'freeBulk': {
        const some = live.splice(a % (live.length + 1), a % 19);
        if (a % 2) some.reverse();
        for (const granule of some) this.released(granule);
        if (this.singly) for (const granule of some) books.free(granule);
        else books.freeBulk(some);
        break;
      }
      case 'keep':
        if (live.length > 0) {
          const [granule] = live.splice(a % live.length, 1);
          kept.push(granule);
          books.push(granule);
        }
        break;
      case 'reuse': {
        const granule = books.pop();
        expect(granule, 'last in, first out').to.equal(kept.pop() ?? NONE);
        if (granule !== NONE) live.push(granule);
        break;
      }
      case 'trim': {
        const length = a % (kept.length + 1);
        for (const granule of kept.splice(length)) this.released(granule);
        books.trim(length);
        break;
      }
      case 'shrink':
        books.shrink();
        break;
      case 'reopen':
        books.closeCache();
        books.openCache(granules);
    }
    expect(books.length).to.equal(kept.length);
    return [books.pages.taken, books.length];
  }

  /** Everything comes back, and is one again. */
  end(): void {
    const { books, live, setting } = this;
    books.trim(0);
    for (const granule of live) books.free(granule);
    books.shrink();
    expect(books.pages.taken).to.equal(0);
    expect(books.pages.allocs).to.equal(books.pages.frees);
    const largest = 31 - Math.clz32(setting.pages);
    if (setting.pages > 0) expect(books.allocRun(1 << (largest + setting.shift))).to.equal(0);
  }
}

for (const kind of KINDS)
  describe(`slab caches, the general allocator over them, and a list (${kind.name})`, () => {
    before(() => kind.load());

    it('give no granule to two, refuse only what is not there, and have everything again once all is back', () => {
      fc.assert(
        fc.property(settings, steps, (setting, list) => {
          const run = new Run(kind, setting);
          for (const step of list) run.step(step);
          run.end();
          kind.checkGuards();
        }),
        runs(120),
      );
    });

    it('give as many at once as one by one, and take them back so: the same places, before and after', () => {
      fc.assert(
        fc.property(settings, steps, (setting, list) => {
          const many = new Run(kind, setting);
          const one = new Run(kind, setting, true);
          for (const step of list) expect(many.step(step), step[0]).to.deep.equal(one.step(step));
          const { taken, allocs, frees, failures } = one.books.pages;
          expect(many.books.pages).to.deep.include({ taken, allocs, frees, failures });
          expect(many.books.grown).to.equal(one.books.grown);
        }),
        runs(100),
      );
    });

    it('give out all that there is, count what they could not give, and start anew after a reset', () => {
      for (const granules of [1, 3, 16]) {
        const books = kind.granules(12, 4);
        books.openCache(granules);
        const whole = 12 * Math.floor(16 / granules);
        for (let round = 1; round <= 3; round++) {
          expect(books.allocBulk(whole + 5)).to.have.length(whole);
          expect(books.alloc()).to.equal(NONE);
          expect(books.allocRun(1)).to.equal(NONE);
          expect(books.pages).to.deep.include({ taken: 12, allocs: 12 * round, failures: 3 * round });
          books.reset();
          expect(books.pages).to.deep.include({ taken: 0, frees: 12 * round });
        }
        expect(books.allocRun(8 << 4)).to.equal(0);
        kind.checkGuards();
      }
    });

    it('note what a restored queue has, and give the rest', () => {
      const books = kind.granules(8, 4);
      books.openCache(3);
      // Of a size that a cache of powers of two has, of another, and of a block of pages; by ascending address.
      for (const [granule, granules] of [
        [4, 4],
        [12, 4],
        [19, 3],
        [32, 32],
      ])
        books.restore(granule, granules);
      expect(books.pages.taken).to.equal(4);
      const taken = [0, 8].map(() => books.allocRun(4));
      expect(taken).to.deep.equal([0, 8]);
      for (const granule of [0, 4, 8, 12, 19, 32]) books.free(granule);
      books.shrink();
      expect(books.pages.taken).to.equal(0);
      expect(books.allocRun(8 << 4)).to.equal(0);
    });

    it('keep an empty slab until pages run out', () => {
      const books = kind.granules(2, 4);
      books.openCache(16);
      books.free(books.alloc());
      expect(books.pages.taken).to.equal(1);
      expect(books.allocRun(32)).to.equal(0);
      expect(books.alloc()).to.equal(NONE);
    });
  });

describe('the granule allocators of both engines', () => {
  before(() => Promise.all(KINDS.map((kind) => kind.load())));

  it('make the same choices', () => {
    fc.assert(
      fc.property(settings, steps, (setting, list) => {
        const [first, ...others] = KINDS.map((kind) => {
          const run = new Run(kind, setting);
          const answers = list.map((step) => run.step(step));
          const { taken, allocs, frees, failures } = run.books.pages;
          return [...answers, [taken, allocs, frees, failures, run.books.grown]];
        });
        for (const other of others) expect(other).to.deep.equal(first);
      }),
      runs(100),
    );
  });
});
