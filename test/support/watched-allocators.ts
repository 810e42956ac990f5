// What the debug build of the engine asserts of its allocators, for the TypeScript twin, which has no debug build:
// that nothing is given back twice, or was never handed out, and that no table and no page is lost. It is put
// around the methods of the twin's classes, so the twin itself has no trace of it.

import { TableList } from '../../src/engine/typescript/indirect/list.js';
import { Tables } from '../../src/engine/typescript/indirect/tables.js';
import { NONE, Pages } from '../../src/engine/typescript/mm/pages.js';
import { Slabs } from '../../src/engine/typescript/mm/slab.js';

/** Who has a granule that is no longer free: somebody, or the list. */
type Holder = 'user' | 'list';

/** Of each page allocator, the blocks that are given out, and their order. */
const blocks = new WeakMap<Pages, Map<number, number>>();
/** Of each granule allocator, known by its links, which a list shares. */
const holders = new WeakMap<Uint32Array, Map<number, Holder>>();

function entry<K extends object, V>(of: WeakMap<K, Map<number, V>>, key: K): Map<number, V> {
  const known = of.get(key) ?? new Map<number, V>();
  of.set(key, known);
  return known;
}

/** Changes who has a granule; undefined for nobody. */
function move(links: Uint32Array, granule: number, from: Holder | undefined, to: Holder | undefined): void {
  const held = entry(holders, links);
  const holder = held.get(granule);
  if (holder !== from)
    throw new Error(`granule ${granule} is with ${holder ?? 'nobody'}, not with ${from ?? 'nobody'}`);
  if (to === undefined) held.delete(granule);
  else held.set(granule, to);
}

function hand(pages: Pages, page: number, order: number): void {
  entry(blocks, pages).set(page, order);
}

function out(slabs: Slabs, granule: number): number {
  if (granule !== NONE) move(slabs.links, granule, undefined, 'user');
  return granule;
}

const linksOf = (list: TableList): Uint32Array => (list as unknown as { links: Uint32Array }).links;

/** Throws if there are tables or pages in use that nobody can give back. */
function audit(tables: Tables): void {
  const { general, list, count, aheadCount, behindCount } = tables as unknown as {
    general: Slabs;
    list: TableList;
    count: number;
    aheadCount: number;
    behindCount: number;
  };
  const held = entry(holders, general.links).size;
  const known = count + list.length + aheadCount + behindCount;
  if (held !== known) throw new Error(`${held} tables are in use, and ${known} are known of`);
  const { pages } = general;
  const { slabs } = general as unknown as { slabs: Uint32Array };
  for (const page of entry(blocks, pages).keys())
    if ((slabs[4 * page + 3] & 0xffffff) === 0) throw new Error(`page ${page} is in use, and of no slab`);
  if (entry(blocks, pages).size !== pages.allocs - pages.frees)
    throw new Error('the counts of blocks are wrong');
}

// biome-ignore lint/suspicious/noExplicitAny: methods of any kind
type Method = (...given: any[]) => any;

/** Puts another function in the place of a method, which gets it. Returns what undoes that. */
function wrap(of: object, name: string, around: (method: Method) => Method): () => void {
  const methods = of as Record<string, Method>;
  const method = methods[name];
  methods[name] = around(method);
  return () => {
    methods[name] = method;
  };
}

let watching = false;

/** Watches all allocators that are made from now on, until what it returns is called. */
export function watchAllocators(): () => void {
  if (watching) return () => {};
  watching = true;
  const undo = [
    wrap(
      Pages.prototype,
      'alloc',
      (alloc) =>
        function (this: Pages, order: number) {
          const page = alloc.call(this, order);
          if (page !== NONE) hand(this, page, order);
          return page;
        },
    ),
    wrap(
      Pages.prototype,
      'take',
      (take) =>
        function (this: Pages, page: number, order: number) {
          const free = take.call(this, page, order);
          if (free) hand(this, page, order);
          return free;
        },
    ),
    wrap(
      Pages.prototype,
      'free',
      (free) =>
        function (this: Pages, page: number, order: number) {
          const taken = entry(blocks, this);
          if (taken.get(page) !== order)
            throw new Error(`pages ${page}+${2 ** order} are no block that was given out`);
          taken.delete(page);
          free.call(this, page, order);
        },
    ),
    wrap(
      Pages.prototype,
      'clear',
      (clear) =>
        function (this: Pages) {
          blocks.delete(this);
          clear.call(this);
        },
    ),
    wrap(
      Slabs.prototype,
      'alloc',
      (alloc) =>
        function (this: Slabs, cache: number) {
          return out(this, alloc.call(this, cache));
        },
    ),
    wrap(
      Slabs.prototype,
      'allocBulk',
      (alloc) =>
        function (this: Slabs, cache: number, to: Uint32Array, n: number) {
          const taken = alloc.call(this, cache, to, n);
          for (let i = 0; i < taken; i++) out(this, to[i]);
          return taken;
        },
    ),
    wrap(
      Slabs.prototype,
      'allocLarge',
      (alloc) =>
        function (this: Slabs, granules: number) {
          return out(this, alloc.call(this, granules));
        },
    ),
    wrap(
      Slabs.prototype,
      'adopt',
      (adopt) =>
        function (this: Slabs, granule: number, granules: number, cache: number) {
          adopt.call(this, granule, granules, cache);
          out(this, granule);
        },
    ),
    wrap(
      Slabs.prototype,
      'free',
      (free) =>
        function (this: Slabs, granule: number) {
          move(this.links, granule, 'user', undefined);
          free.call(this, granule);
        },
    ),
    wrap(
      Slabs.prototype,
      'freeBulk',
      (free) =>
        function (this: Slabs, granules: Uint32Array, n: number) {
          for (let i = 0; i < n; i++) move(this.links, granules[i], 'user', undefined);
          free.call(this, granules, n);
        },
    ),
    wrap(
      Slabs.prototype,
      'clear',
      (clear) =>
        function (this: Slabs) {
          holders.delete(this.links);
          clear.call(this);
        },
    ),
    wrap(
      TableList.prototype,
      'push',
      (push) =>
        function (this: TableList, granule: number) {
          move(linksOf(this), granule, 'user', 'list');
          push.call(this, granule);
        },
    ),
    wrap(
      TableList.prototype,
      'pop',
      (pop) =>
        function (this: TableList) {
          const granule = pop.call(this);
          if (granule !== NONE) move(linksOf(this), granule, 'list', 'user');
          return granule;
        },
    ),
    wrap(
      Tables.prototype,
      'settle',
      (settle) =>
        function (this: Tables) {
          settle.call(this);
          audit(this);
        },
    ),
    wrap(
      Tables.prototype,
      'clear',
      (clear) =>
        function (this: Tables) {
          audit(this);
          clear.call(this);
        },
    ),
  ];
  return () => {
    for (const back of undo) back();
    watching = false;
  };
}
