// The allocators of both engines behind one interface, so that a property is written once.

import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';
import { TABLES_LIST, TABLES_NONE, TABLES_SLAB, TABLES_SLAB_BULK } from '../../assembly/abi/layout.js';
import type { TableStrategy } from '../../src/engine/engine.js';
import { tablePages } from '../../src/engine/table-pages.js';
import { TableList } from '../../src/engine/typescript/indirect/list.js';
import { Tables } from '../../src/engine/typescript/indirect/tables.js';
import { General } from '../../src/engine/typescript/mm/general.js';
import { Pages } from '../../src/engine/typescript/mm/pages.js';

/** Counts of a page allocator. */
export interface PageCounts {
  readonly taken: number;
  readonly allocs: number;
  readonly frees: number;
  readonly failures: number;
}

export interface PageAllocator extends PageCounts {
  reset(): void;
  alloc(order: number): number;
  take(page: number, order: number): boolean;
  free(page: number, order: number): void;
}

/** A general allocator with a slab cache and a list of free tables beside it. */
export interface GranuleAllocator {
  readonly pages: PageCounts;
  reset(): void;
  allocRun(count: number): number;
  roomOf(count: number): number;
  room(granule: number): number;
  restore(granule: number, granules: number): void;
  free(granule: number): void;
  freeBulk(granules: number[]): void;
  shrink(): void;
  openCache(granules: number): void;
  closeCache(): void;
  /** Of the slab cache. */
  alloc(): number;
  allocBulk(n: number): number[];
  /** Slabs that the cache made. */
  readonly grown: number;
  push(granule: number): void;
  pop(): number;
  trim(length: number): void;
  readonly length: number;
}

/** The tables of a driver, and ways to lose what is theirs. */
export interface TableSource {
  configure(strategy: TableStrategy, descriptors: number, bound: number): void;
  alloc(count: number, more: number): number;
  free(table: number, count: number): void;
  settle(): void;
  clear(): void;
  /** Takes a table, or a page, of which nobody knows. */
  loseTable(): void;
  losePage(): void;
}

/** What makes allocators: `load` first, once. */
export interface Kind {
  name: string;
  load(): Promise<void>;
  pages(total: number): PageAllocator;
  granules(pages: number, shift: number): GranuleAllocator;
  tables(bytes: number): TableSource;
  /** Throws if something was written beside the books of an allocator. */
  checkGuards(): void;
}

const CACHE = 0;

export const typescript: Kind = {
  name: 'TypeScript',
  load: async () => {},
  checkGuards: () => {},
  pages(total) {
    const pages = new Pages(total);
    return Object.assign(pages, { reset: () => pages.clear() });
  },
  granules(pages, shift) {
    const general = new General(pages, shift, CACHE + 1);
    const list = new TableList(general.links);
    return {
      pages: general.pages,
      reset: () => {
        general.clear();
        list.clear();
      },
      allocRun: (count) => general.allocRun(count),
      roomOf: (count) => general.roomOf(count),
      room: (granule) => general.room(granule),
      restore: (granule, granules) => general.restore(granule, granules),
      free: (granule) => general.free(granule),
      freeBulk: (granules) => general.freeBulk(Uint32Array.from(granules), granules.length),
      shrink: () => general.shrink(),
      openCache: (granules) => general.open(CACHE, granules),
      closeCache: () => general.close(CACHE),
      alloc: () => general.alloc(CACHE),
      allocBulk: (n) => {
        const out = new Uint32Array(n);
        return [...out.subarray(0, general.allocBulk(CACHE, out, n))];
      },
      get grown() {
        return general.grown[CACHE];
      },
      push: (granule) => list.push(granule),
      pop: () => list.pop(),
      trim: (length) => {
        while (list.length > length) general.free(list.pop());
      },
      get length() {
        return list.length;
      },
    };
  },
  tables(bytes) {
    const tables = new Tables(bytes);
    const { general } = tables as unknown as { general: General };
    return {
      configure: (strategy, descriptors, bound) =>
        tables.configure({ strategy, descriptors, bound, prefill: 0 }),
      alloc: (count, more) => tables.alloc(count, more),
      free: (table, count) => tables.free(table, count),
      settle: () => tables.settle(),
      clear: () => tables.clear(),
      loseTable: () => general.allocRun(1),
      losePage: () => general.pages.alloc(0),
    };
  },
};

type Exports = Record<string, (...numbers: number[]) => number>;

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Compiles test/mm/assembly with the options of one of the builds that asconfig.json has. */
async function compile(target: 'debug' | 'release'): Promise<WebAssembly.Module> {
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  const { error, stderr } = await asc.main(
    ['test/mm/assembly/index.ts', '--baseDir', ROOT, '--target', target, '--outFile', 'mm.wasm'],
    {
      writeFile: (name, contents) => {
        if (name === 'mm.wasm') bytes = Uint8Array.from(contents as Uint8Array);
      },
    },
  );
  if (error !== null || bytes === undefined)
    throw new Error(`test/mm/assembly does not compile: ${error?.message}\n${stderr}`);
  return WebAssembly.compile(bytes);
}

/** Memory for the books of so many allocators, with a guard around each, and behind it for lists of granules. */
const BLOCK = 0x10000;
const BLOCKS = 8;
const GUARD = 64;
/** In every word that nobody has set: what stands for a granule that is handed out would be the worst to find. */
const JUNK = 0xfffffffe;

const STRATEGIES = {
  none: TABLES_NONE,
  slab: TABLES_SLAB,
  'slab-bulk': TABLES_SLAB_BULK,
  list: TABLES_LIST,
};

/** The code of assembly/, in one of its builds. */
class AssemblyScript implements Kind {
  readonly name: string;
  private loaded: Promise<void> | undefined;
  private readonly memory = new WebAssembly.Memory({ initial: BLOCKS + 1 });
  private readonly guards = new Map<number, number>();
  private made = 0;
  private exports: Exports = {};

  constructor(private readonly target: 'debug' | 'release') {
    this.name = `AssemblyScript, ${target} build`;
  }

  load(): Promise<void> {
    this.loaded ??= (async () => {
      const module = await compile(this.target);
      const { exports } = await WebAssembly.instantiate(module, { env: { memory: this.memory } });
      this.exports = exports as Exports;
    })();
    return this.loaded;
  }

  checkGuards(): void {
    const written = (address: number) =>
      new Uint32Array(this.memory.buffer, address, GUARD / 4).some((word) => word !== JUNK);
    for (const [start, end] of this.guards)
      if (written(start) || written(end)) throw new Error('the books were written outside of their memory');
  }

  /** Memory for books: the oldest of BLOCKS allocators ends here. */
  private block(bytes: number): number {
    if (bytes + 2 * GUARD > BLOCK) throw new Error(`books of ${bytes} bytes`);
    const start = (this.made++ % BLOCKS) * BLOCK;
    new Uint32Array(this.memory.buffer, start, BLOCK / 4).fill(JUNK);
    this.guards.set(start, start + GUARD + bytes);
    return start + GUARD;
  }

  pages(total: number): PageAllocator {
    const { exports: e } = this;
    const at = this.block(e.pagesBytes(total));
    e.pagesInit(at, total);
    return this.pagesAt(at);
  }

  private pagesAt(at: number): PageAllocator {
    const { exports: e } = this;
    return {
      get taken() {
        return e.pagesTaken(at);
      },
      get allocs() {
        return e.pagesAllocs(at);
      },
      get frees() {
        return e.pagesFrees(at);
      },
      get failures() {
        return e.pagesFailures(at);
      },
      reset: () => e.pagesReset(at),
      alloc: (order) => e.pagesAlloc(at, order) >>> 0,
      take: (page, order) => e.pagesTake(at, page, order) === 1,
      free: (page, order) => e.pagesFree(at, page, order),
    };
  }

  granules(pages: number, shift: number): GranuleAllocator {
    const { exports: e } = this;
    const at = this.block(e.granulesBytes(pages, shift));
    e.granulesInit(at, pages, shift);
    const list = (n: number) => new Uint32Array(this.memory.buffer, BLOCKS * BLOCK, n);
    return {
      pages: this.pagesAt(e.granulesPages(at)),
      reset: () => e.granulesReset(at),
      allocRun: (count) => e.granulesAllocRun(at, count) >>> 0,
      roomOf: (count) => e.granulesRoomOf(at, count),
      room: (granule) => e.granulesRoom(at, granule),
      restore: (granule, granules) => e.granulesRestore(at, granule, granules),
      free: (granule) => e.granulesFree(at, granule),
      freeBulk: (granules) => {
        list(granules.length).set(granules);
        e.granulesFreeBulk(at, BLOCKS * BLOCK, granules.length);
      },
      shrink: () => e.granulesShrink(at),
      openCache: (granules) => e.cacheOpen(at, granules),
      closeCache: () => e.cacheClose(at),
      alloc: () => e.cacheAlloc(at) >>> 0,
      allocBulk: (n) => [...list(e.cacheAllocBulk(at, BLOCKS * BLOCK, n))],
      get grown() {
        return e.cacheGrown(at);
      },
      push: (granule) => e.listPush(at, granule),
      pop: () => e.listPop(at) >>> 0,
      trim: (length) => e.listTrim(at, length),
      get length() {
        return e.listLength(at);
      },
    };
  }

  tables(bytes: number): TableSource {
    const { exports: e } = this;
    const { pages, shift } = tablePages(bytes);
    const at = this.block(e.tablesBytes(pages, shift));
    e.tablesInit(at, pages, shift);
    return {
      configure: (strategy, descriptors, bound) =>
        e.tablesConfigure(at, STRATEGIES[strategy], descriptors, bound),
      alloc: (count, more) => e.tablesAlloc(at, count, more) >>> 0,
      free: (table, count) => e.tablesFree(at, table, count),
      settle: () => e.tablesSettle(at),
      clear: () => e.tablesClear(at),
      loseTable: () => e.tablesLoseTable(at),
      losePage: () => e.tablesLosePage(at),
    };
  }
}

export const debug = new AssemblyScript('debug');
export const release = new AssemblyScript('release');

export const KINDS: readonly Kind[] = [debug, release, typescript];
