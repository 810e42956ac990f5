import { expect } from 'chai';
import fc from 'fast-check';
import { NONE } from '../../src/engine/typescript/mm/pages.js';
import { debug, type GranuleAllocator, type PageAllocator, typescript } from '../support/allocators.js';
import { runs } from '../support/choices.js';
import { watchAllocators } from '../support/watched-allocators.js';

/** Who checks, and what that looks like. */
const CHECKED = [
  { kind: debug, watch: () => () => {}, caught: [WebAssembly.RuntimeError, /unreachable/] },
  {
    kind: typescript,
    watch: watchAllocators,
    caught: [Error, /not with|are no block|are known of|of no slab/],
  },
] as const;

/** Twelve pages of sixteen granules, and a cache of objects of three: five in a page. */
const PAGES = 12;
const SHIFT = 4;
const PAST = PAGES << SHIFT;

const pageMistakes: Record<string, (pages: PageAllocator) => void> = {
  'given back twice': (pages) => {
    pages.free(pages.alloc(1), 1);
    pages.free(0, 1);
  },
  'given back twice, with a neighbour in use': (pages) => {
    const [page] = [pages.alloc(0), pages.alloc(0)];
    pages.free(page, 0);
    pages.free(page, 0);
  },
  'given back twice, the second time as a part of what it became': (pages) => {
    const both = [pages.alloc(0), pages.alloc(0)];
    for (const page of both) pages.free(page, 0);
    pages.free(both[1], 0);
  },
  'never given out': (pages) => pages.free(3, 0),
  'given out before a reset': (pages) => {
    pages.alloc(0);
    pages.reset();
    pages.free(0, 0);
  },
  'larger than what was given out': (pages) => pages.free(pages.alloc(0), 1),
  'smaller than what was given out': (pages) => pages.free(pages.alloc(2), 1),
  'inside what was given out': (pages) => pages.free(pages.alloc(2) + 1, 0),
  'the two halves of it': (pages) => {
    const [page] = [pages.alloc(0), pages.alloc(0)];
    pages.free(page, 1);
  },
  'past the end': (pages) => pages.free(PAGES, 0),
  'far past the end': (pages) => pages.free(0x7fff_ffff, 0),
  'NONE, that there was none': (pages) => pages.free(NONE, 0),
};

const granuleMistakes: Record<string, (books: GranuleAllocator) => void> = {
  'given back twice': (books) => {
    const [granule] = [books.alloc(), books.alloc()];
    books.free(granule);
    books.free(granule);
  },
  'given back twice, the only one of its slab': (books) => {
    const granule = books.alloc();
    books.free(granule);
    books.free(granule);
  },
  'given back twice, the second time after its page': (books) => {
    const granule = books.alloc();
    books.free(granule);
    books.shrink();
    books.free(granule);
  },
  'given back twice, a block of pages': (books) => {
    const granule = books.allocRun(30);
    books.free(granule);
    books.free(granule);
  },
  'given back twice in one bulk': (books) => {
    const [granule, other] = books.allocBulk(2);
    books.freeBulk([granule, other, granule]);
  },
  'given back singly and then in bulk': (books) => {
    const granules = books.allocBulk(7);
    books.free(granules[6]);
    books.freeBulk(granules);
  },
  'given back after its cache was closed, twice': (books) => {
    const [granule] = books.allocBulk(2);
    books.closeCache();
    books.free(granule);
    books.free(granule);
  },
  'never handed out, of an open slab': (books) => books.free(books.alloc() + 3),
  'never handed out, in bulk': (books) => books.freeBulk([books.alloc(), 6]),
  'never handed out, of no slab': (books) => books.free(3 << SHIFT),
  'never handed out, of no slab, in bulk': (books) => books.freeBulk([3 << SHIFT]),
  'inside an object': (books) => books.free(books.alloc() + 1),
  'inside a block of pages': (books) => books.free(books.allocRun(40) + 16),
  'what no object begins at': (books) => {
    books.allocBulk(5);
    books.free(15);
  },
  'past the end': (books) => books.free(PAST),
  'past the end, in bulk': (books) => books.freeBulk([PAST]),
  'far past the end': (books) => books.free(0x3fff_ffff),
  'NONE, that there was none': (books) => books.free(NONE),
  'handed out before a reset': (books) => {
    const granule = books.alloc();
    books.reset();
    books.free(granule);
  },
  'handed out before a reset, and now inside another': (books) => {
    const granules = books.allocBulk(3);
    books.reset();
    books.allocRun(16);
    books.free(granules[1]);
  },
  'put into the list twice': (books) => {
    const granule = books.alloc();
    books.push(granule);
    books.push(granule);
  },
  'put into the list twice, with another between': (books) => {
    const [one, other] = books.allocBulk(2);
    for (const granule of [one, other, one]) books.push(granule);
  },
  'given back while it is in the list': (books) => {
    const granule = books.alloc();
    books.push(granule);
    books.free(granule);
  },
  'put into the list after it was given back': (books) => {
    const [granule] = books.allocBulk(2);
    books.free(granule);
    books.push(granule);
  },
  'put into the list, never handed out': (books) => books.push(40),
  'trimmed from the list and given back': (books) => {
    const granule = books.alloc();
    books.push(granule);
    books.trim(0);
    books.free(granule);
  },
};

for (const { kind, watch, caught } of CHECKED)
  describe(`mistakes that are caught (${kind.name}${kind === typescript ? ', watched' : ''})`, () => {
    let unwatch: () => void;
    before(async () => {
      await kind.load();
      unwatch = watch();
    });
    after(() => unwatch());

    const isCaught = (act: () => unknown, what: string) => expect(act, what).to.throw(caught[0], caught[1]);

    for (const [what, act] of Object.entries(pageMistakes))
      it(`pages: ${what}`, () => isCaught(() => act(kind.pages(PAGES)), what));

    for (const [what, act] of Object.entries(granuleMistakes))
      it(`granules: ${what}`, () => {
        const books = kind.granules(PAGES, SHIFT);
        books.openCache(3);
        isCaught(() => act(books), what);
      });

    it('every granule but those that are handed out, whatever happened before', () => {
      fc.assert(
        fc.property(
          fc.array(fc.tuple(fc.nat(7), fc.nat(99)), { maxLength: 60, size: 'max' }),
          fc.nat(PAST + 20),
          fc.nat(2),
          (list, granule, how) => {
            const books = kind.granules(PAGES, SHIFT);
            books.openCache(3);
            const live: number[] = [];
            for (const [what, a] of list) {
              if (what === 0) live.push(...books.allocBulk(a % 9));
              else if (what < 4) live.push(books.allocRun(1 + (a % (what * 16))));
              else if (what === 4 && live.length > 0) books.push(live.splice(a % live.length, 1)[0]);
              else if (what === 5) live.push(books.pop());
              else if (what === 6 && a < 10) {
                books.reset();
                live.length = 0;
              } else if (live.length > 0) books.freeBulk(live.splice(a % live.length, 1 + (a % 3)));
              if (live.at(-1) === NONE) live.pop();
            }
            const act = [
              () => books.free(granule),
              () => books.freeBulk([granule]),
              () => books.push(granule),
            ][how];
            if (live.includes(granule)) act();
            else isCaught(act, `${granule}, with ${live} handed out`);
          },
        ),
        runs(300),
      );
    });

    for (const strategy of ['none', 'slab', 'slab-bulk', 'list'] as const)
      describe(`tables that are lost (${strategy})`, () => {
        const filled = () => {
          const tables = kind.tables(4096);
          tables.configure(strategy, 4, 2);
          const taken = [2, 3, 4, 9, 2, 2].map((count) => ({ count, table: tables.alloc(count, 3) }));
          tables.settle();
          for (const { table, count } of taken.splice(0, 4)) tables.free(table, count);
          tables.settle();
          return { tables, taken };
        };

        it('none is, and that is seen', () => {
          const { tables, taken } = filled();
          for (const { table, count } of taken) tables.free(table, count);
          tables.settle();
          tables.configure('none', 4, 0);
          tables.settle();
          tables.clear();
        });

        it('a table, noticed at the end of the burst', () => {
          const { tables } = filled();
          tables.loseTable();
          isCaught(() => tables.settle(), 'settle');
        });

        it('a table, noticed at a reset', () => {
          const { tables } = filled();
          tables.loseTable();
          isCaught(() => tables.clear(), 'clear');
        });

        it('a page', () => {
          const { tables } = filled();
          tables.losePage();
          isCaught(() => tables.settle(), 'settle');
        });

        it('none, but one is given back twice', () => {
          const { tables, taken } = filled();
          const [{ table, count }] = taken;
          tables.free(table, count);
          isCaught(() => {
            tables.free(table, count);
            tables.settle();
          }, 'free');
        });
      });
  });
