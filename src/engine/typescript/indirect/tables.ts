import {
  COUNT_TABLE_HIGH_WATER,
  COUNT_TABLE_HITS,
  COUNT_TABLE_MISSES,
  COUNT_TABLE_REFILLS,
  COUNT_TABLE_RETURNED,
  COUNT_TABLE_WASTED,
  DESC_BYTES,
  DRIVER_COUNTERS,
  TABLES_BULK,
} from '../../../../assembly/abi/layout.js';
import type { TableConfig, TableStrategy } from '../../engine.js';
import { tablePages } from '../../table-pages.js';
import { General } from '../mm/general.js';
import { NONE } from '../mm/pages.js';
import { TableList } from './list.js';

/** The slab cache of tables, among those of the allocator. */
const CACHE = 0;

/** What `alloc` returns where there is no table. */
export const NO_TABLE = -1;

/** First granule of a table. */
export const granuleOf = (table: number): number => table >>> 1;
/** Name of a table that goes back to the list. */
export const listedName = (granule: number): number => (granule << 1) | 1;
export const isListed = (table: number): boolean => (table & 1) !== 0;
/** The table without what says that it goes back to the list. */
export const uncached = (table: number): number => table & ~1;

/**
 * Where indirect tables come from and go back to; `TableConfig` has the contract. A table is named by its first
 * granule, doubled, plus 1 if it is one of the list's.
 */
export class Tables {
  /** In flight: tables, and the descriptors in use of these. */
  count = 0;
  descriptors = 0;
  /** COUNT_TABLE_* */
  readonly counts = new Float64Array(DRIVER_COUNTERS);
  private readonly general: General;
  readonly list: TableList;
  private strategy: TableStrategy = 'none';
  /** The one predicate of what the cache is for is `segments <= fits`. */
  private fits = 0;
  /** The same if the cache is a list, else 0. */
  listFits = 0;
  bound = 0;
  private prefill = 0;
  private readonly pageBytes: number;
  private readonly ahead = new Uint32Array(TABLES_BULK);
  private readonly behind = new Uint32Array(TABLES_BULK);
  private aheadCount = 0;
  private behindCount = 0;

  constructor(length: number) {
    const { pages, granules, shift } = tablePages(length);
    this.pageBytes = granules * DESC_BYTES;
    this.general = new General(pages, shift, CACHE + 1);
    this.list = new TableList(this.general.links);
  }

  get listLength(): number {
    return this.list.length;
  }

  /** Bytes of the pages in use. */
  get memory(): number {
    return this.general.pages.taken * this.pageBytes;
  }

  /** Everything free, the cache empty. */
  clear(): void {
    this.counts[COUNT_TABLE_RETURNED] += this.count;
    this.count = 0;
    this.descriptors = 0;
    this.aheadCount = 0;
    this.behindCount = 0;
    this.general.clear();
    this.list.clear();
  }

  /** Another cache. The tables in flight must be named as uncached from now on. */
  configure({ strategy, descriptors, bound, prefill }: TableConfig): void {
    const { general } = this;
    this.trim(0);
    if (general.isOpen(CACHE)) general.close(CACHE);
    this.strategy = strategy;
    this.fits = strategy === 'none' ? 0 : descriptors;
    this.listFits = strategy === 'list' ? descriptors : 0;
    this.bound = bound;
    this.prefill = prefill;
    if (strategy.startsWith('slab') && descriptors <= 1 << general.shift) general.open(CACHE, descriptors);
    this.fill();
  }

  /** Puts into the list what it has at the start. */
  fill(): void {
    if (this.strategy !== 'list') return;
    while (this.list.length < this.prefill) {
      const granule = this.general.allocRun(this.fits);
      if (granule === NONE) return;
      this.keep(granule);
    }
  }

  /** Gives tables of the list back until so many are left. */
  trim(length: number): void {
    while (this.list.length > length) this.general.free(this.list.pop());
  }

  /** Gives the pages of slabs without a table in use back. */
  shrink(): void {
    this.general.shrink();
  }

  /** @param more how many may be asked for in this burst */
  alloc(segments: number, more: number): number {
    const { list } = this;
    if (segments > this.listFits || list.length === 0) return this.allocOther(segments, more);
    this.counts[COUNT_TABLE_HITS]++;
    return this.give(list.pop(), segments, this.fits) | 1;
  }

  /** Counts what a driver popped off the list: so many tables, for so many segments. */
  took(tables: number, segments: number): void {
    this.counts[COUNT_TABLE_HITS] += tables;
    this.counts[COUNT_TABLE_WASTED] += tables * this.fits - segments;
    this.count += tables;
    this.descriptors += segments;
  }

  /** Counts what a driver pushed back to the list, `bound` at most. */
  returned(tables: number, segments: number): void {
    const { counts, list } = this;
    counts[COUNT_TABLE_RETURNED] += tables;
    if (list.length > counts[COUNT_TABLE_HIGH_WATER]) counts[COUNT_TABLE_HIGH_WATER] = list.length;
    this.count -= tables;
    this.descriptors -= segments;
  }

  /** Where the list cannot help. */
  private allocOther(segments: number, more: number): number {
    const room = this.fits;
    if (segments <= this.listFits) {
      const granule = this.general.allocRun(room);
      if (granule === NONE) return this.allocGeneral(segments);
      this.counts[COUNT_TABLE_MISSES]++;
      this.counts[COUNT_TABLE_REFILLS]++;
      return this.give(granule, segments, room) | 1;
    }
    if (segments <= room && this.general.isOpen(CACHE)) {
      const granule = this.strategy === 'slab' ? this.allocSlab() : this.allocAhead(more);
      return granule === NONE ? NO_TABLE : this.give(granule, segments, room);
    }
    return this.allocGeneral(segments);
  }

  private give(granule: number, segments: number, room: number): number {
    this.counts[COUNT_TABLE_WASTED] += room - segments;
    this.count++;
    this.descriptors += segments;
    return granule << 1;
  }

  private allocGeneral(segments: number): number {
    const granule = this.allocRun(segments);
    if (granule === NONE) return NO_TABLE;
    this.counts[COUNT_TABLE_MISSES]++;
    return this.give(granule, segments, this.general.roomOf(segments));
  }

  private allocRun(segments: number): number {
    const granule = this.general.allocRun(segments);
    if (granule !== NONE || this.list.length === 0) return granule;
    this.trim(0);
    return this.general.allocRun(segments);
  }

  private allocSlab(): number {
    const { general, counts } = this;
    const grown = general.grown[CACHE];
    const granule = general.alloc(CACHE);
    if (granule === NONE) return NONE;
    if (general.grown[CACHE] === grown) {
      counts[COUNT_TABLE_HITS]++;
    } else {
      counts[COUNT_TABLE_MISSES]++;
      counts[COUNT_TABLE_REFILLS]++;
    }
    return granule;
  }

  private allocAhead(more: number): number {
    if (this.aheadCount === 0) {
      this.aheadCount = this.general.allocBulk(CACHE, this.ahead, Math.min(more, TABLES_BULK));
      if (this.aheadCount === 0) return NONE;
      this.counts[COUNT_TABLE_REFILLS]++;
      this.counts[COUNT_TABLE_MISSES]++;
    } else {
      this.counts[COUNT_TABLE_HITS]++;
    }
    return this.ahead[--this.aheadCount];
  }

  /** Takes the table of a buffer of so many segments back. */
  free(table: number, segments: number): void {
    const granule = granuleOf(table);
    this.count--;
    this.descriptors -= segments;
    this.counts[COUNT_TABLE_RETURNED]++;
    if ((table & 1) !== 0 && this.list.length < this.bound) this.keep(granule);
    else this.freeOther(table, granule);
  }

  /** Where it does not go to the list. */
  private freeOther(table: number, granule: number): void {
    if ((table & 1) !== 0 || this.strategy !== 'slab-bulk') {
      this.general.free(granule);
      return;
    }
    if (this.behindCount === TABLES_BULK) this.settleBehind();
    this.behind[this.behindCount++] = granule;
  }

  /** The end of a burst: what slab-bulk holds goes back. */
  settle(): void {
    if (this.aheadCount !== 0) {
      this.general.freeBulk(this.ahead, this.aheadCount);
      this.aheadCount = 0;
    }
    if (this.behindCount !== 0) this.settleBehind();
  }

  private settleBehind(): void {
    this.general.freeBulk(this.behind, this.behindCount);
    this.behindCount = 0;
  }

  private keep(granule: number): void {
    this.list.push(granule);
    if (this.list.length > this.counts[COUNT_TABLE_HIGH_WATER])
      this.counts[COUNT_TABLE_HIGH_WATER] = this.list.length;
  }

  /** Granules of a table in flight. */
  room(table: number): number {
    return this.general.room(granuleOf(table));
  }

  /** Takes a table that a restored queue has in flight, by ascending granule. Returns its name. */
  restore(granule: number, segments: number, room: number): number {
    this.general.restore(granule, room);
    this.count++;
    this.descriptors += segments;
    return granule << 1;
  }
}
