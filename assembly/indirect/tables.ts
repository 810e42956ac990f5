// Where a driver's indirect tables come from and go back to. The contract is at `TableConfig` of
// src/engine/engine.ts. A table is named by its address, with CACHED added if it is one of the list's.

import {
  COUNT_TABLE_HIGH_WATER,
  COUNT_TABLE_HITS,
  COUNT_TABLE_MISSES,
  COUNT_TABLE_REFILLS,
  COUNT_TABLE_RETURNED,
  COUNT_TABLE_WASTED,
  TABLES_BULK,
  TABLES_HEAD_BYTES,
  TABLES_IN_FLIGHT,
  TABLES_LIST,
  TABLES_NONE,
  TABLES_SLAB,
  TABLES_SLAB_BULK,
} from '../abi/layout';
import { General } from '../mm/general';
import { NONE } from '../mm/pages';
import { SlabCache } from '../mm/slab';
import { TableList } from './list';

/** The table goes back to the list. Tables are 16-byte aligned, so the bit is free. */
const CACHED: u32 = 1;
const ALIGNED: u32 = ~15;
/** log2 of DESC_BYTES. */
const GRANULE_SHIFT: usize = 4;

@unmanaged
export class Tables {
  hits: u64;
  misses: u64;
  refills: u64;
  wasted: u64;
  returned: u64;
  highWater: u64;
  /** Descriptors of the tables in flight in the lower half, tables in the upper: one store for both. */
  private inFlight: u64;
  general: General;
  slab: SlabCache;
  list: TableList;
  /** u32[TABLES_BULK] each: tables taken ahead for the burst, and tables to give back after it. */
  private ahead: usize;
  private behind: usize;
  private aheadCount: u32;
  private behindCount: u32;
  /** Local address of granule 0. */
  private base: usize;
  strategy: u32;
  /** Descriptors of a table of the cache; 0 without one. The one predicate is `count <= fits`. */
  fits: u32;
  /** The same if the cache is a list, else 0: so that one test says that the list is to be asked. */
  private listFits: u32;
  /** Most tables that the list keeps, and how many it has from the start. */
  private bound: u32;
  private prefill: u32;

  /** Local address of a table. */
  @inline
  static address(table: u32): u32 {
    return table & ALIGNED;
  }

  /** Private memory for tables of `pages` pages of 2^shift granules. */
  static bytes(pages: u32, shift: u32): u32 {
    return (
      offsetof<Tables>() +
      offsetof<General>() +
      offsetof<SlabCache>() +
      offsetof<TableList>() +
      2 * TABLES_BULK * 4 +
      General.bytes(pages, shift)
    );
  }

  init(base: usize, pages: u32, shift: u32): void {
    memory.fill(changetype<usize>(this), 0, offsetof<Tables>());
    let at = changetype<usize>(this) + offsetof<Tables>();
    this.general = changetype<General>(at);
    at += offsetof<General>();
    this.slab = changetype<SlabCache>(at);
    at += offsetof<SlabCache>();
    this.list = changetype<TableList>(at);
    at += offsetof<TableList>();
    this.ahead = at;
    at += TABLES_BULK * 4;
    this.behind = at;
    at += TABLES_BULK * 4;
    this.base = base;
    this.general.init(pages, shift, at);
    this.list.init(this.general);
    this.slab.init(this.general, 0);
  }

  /** Every table back, the cache as after `configure`. */
  reset(): void {
    this.clear();
    this.fill();
  }

  /** Everything free, the cache empty. */
  clear(): void {
    this.audit();
    this.returned += this.inFlight >> 32;
    this.inFlight = 0;
    this.aheadCount = 0;
    this.behindCount = 0;
    this.general.reset();
    this.list.init(this.general);
    this.slab.init(this.general, this.slab.granules);
  }

  /** Another strategy; tables in flight must have lost their CACHED mark. */
  configure(strategy: u32, descriptors: u32, bound: u32, prefill: u32): void {
    this.list.trim(0);
    if (this.slab.granules != 0) this.slab.close();
    this.strategy = strategy;
    this.fits = strategy == TABLES_NONE ? 0 : descriptors;
    this.listFits = strategy == TABLES_LIST ? descriptors : 0;
    this.bound = bound;
    this.prefill = prefill;
    // Objects longer than a page are blocks of pages: no cache makes them.
    const slabs = strategy == TABLES_SLAB || strategy == TABLES_SLAB_BULK;
    if (slabs && descriptors <= (<u32>1) << this.general.shift) this.slab.granules = descriptors;
    this.fill();
  }

  /** Fills the list as far as it is to be filled from the start. */
  fill(): void {
    if (this.strategy != TABLES_LIST) return;
    while (this.list.length < this.prefill) {
      const granule = this.general.alloc(this.fits);
      if (granule == NONE) break;
      this.keep(granule);
    }
  }

  @inline
  private keep(granule: u32): void {
    this.list.push(granule);
    if (this.list.length > this.highWater) this.highWater = this.list.length;
  }

  /** A table of at least `count` descriptors, or 0. `more`: how many may be asked for in this burst. */
  @inline
  alloc(count: u32, more: u32): u32 {
    if (count > this.listFits) return this.allocOther(count, more);
    const granule = this.list.pop();
    if (granule == NONE) return this.refill(count);
    this.hits++;
    this.wasted += this.fits - count;
    this.inFlight += ((<u64>1) << 32) | count;
    return <u32>(this.base + ((<usize>granule) << GRANULE_SHIFT)) | CACHED;
  }

  /** The list is empty: a table that will come to it, or at least one that will do. */
  private refill(count: u32): u32 {
    const granule = this.general.alloc(this.fits);
    if (granule == NONE) return this.allocGeneral(count);
    this.refills++;
    return this.miss(granule, count, this.fits) | CACHED;
  }

  private miss(granule: u32, count: u32, room: u32): u32 {
    this.misses++;
    return this.give(granule, count, room);
  }

  private give(granule: u32, count: u32, room: u32): u32 {
    this.wasted += room - count;
    this.inFlight += ((<u64>1) << 32) | count;
    return <u32>(this.base + ((<usize>granule) << GRANULE_SHIFT));
  }

  private allocOther(count: u32, more: u32): u32 {
    if (count <= this.fits && this.slab.granules != 0) {
      const granule = this.strategy == TABLES_SLAB ? this.allocSlab() : this.allocAhead(more);
      if (granule == NONE) return 0;
      return this.give(granule, count, this.fits);
    }
    return this.allocGeneral(count);
  }

  private allocGeneral(count: u32): u32 {
    let granule = this.general.alloc(count);
    if (granule == NONE && this.list.length > 0) {
      // What lies in the list may be what is wanting.
      this.list.trim(0);
      granule = this.general.alloc(count);
    }
    if (granule == NONE) return 0;
    return this.miss(granule, count, this.general.roomOf(count));
  }

  private allocSlab(): u32 {
    const grown = this.slab.grown;
    const granule = this.slab.alloc();
    if (granule == NONE) return NONE;
    if (this.slab.grown == grown) this.hits++;
    else {
      this.misses++;
      this.refills++;
    }
    return granule;
  }

  private allocAhead(more: u32): u32 {
    if (this.aheadCount == 0) {
      const n = this.slab.allocBulk(this.ahead, min<u32>(more, TABLES_BULK));
      if (n == 0) return NONE;
      this.aheadCount = n;
      this.refills++;
      this.misses++;
    } else this.hits++;
    // From the end: what is left over goes back in the order that it came in.
    this.aheadCount--;
    return load<u32>(this.ahead + ((<usize>this.aheadCount) << 2));
  }

  /** Takes back the table of a buffer of `count` segments. */
  free(table: u32, count: u32): void {
    this.takeBack(table, count);
  }

  /** `free` for a loop of its own. */
  @inline
  takeBack(table: u32, count: u32): void {
    const granule = <u32>((<usize>table - this.base) >> GRANULE_SHIFT);
    this.inFlight -= ((<u64>1) << 32) | count;
    this.returned++;
    if (table & CACHED && this.list.length < this.bound) this.keep(granule);
    else this.freeOther(table & CACHED, granule);
  }

  private freeOther(cached: u32, granule: u32): void {
    if (cached == 0 && this.strategy == TABLES_SLAB_BULK) this.freeBehind(granule);
    else this.general.free(granule);
  }

  private freeBehind(granule: u32): void {
    if (this.behindCount == TABLES_BULK) this.settleBehind();
    store<u32>(this.behind + ((<usize>this.behindCount) << 2), granule);
    this.behindCount++;
  }

  private settleBehind(): void {
    this.general.freeBulk(this.behind, this.behindCount);
    this.behindCount = 0;
  }

  /** The end of a burst: what was taken ahead, or not given back yet, goes to the slabs. */
  settle(): void {
    if (this.aheadCount > 0) {
      this.general.freeBulk(this.ahead, this.aheadCount);
      this.aheadCount = 0;
    }
    if (this.behindCount > 0) this.settleBehind();
    this.audit();
  }

  /** In debug builds: traps if a table or a page was lost. What is in use is in flight, or ready for use. */
  @inline
  private audit(): void {
    if (!ASC_NO_ASSERT) {
      const ready = this.list.length + this.aheadCount + this.behindCount;
      assert(this.general.inUse == this.count + ready);
    }
  }

  /** Notes that a restored queue has a table of so many granules in use. */
  restore(address: u32, count: u32, room: u32): void {
    this.general.restore((address - <u32>this.base) >> <u32>GRANULE_SHIFT, room);
    this.inFlight += ((<u64>1) << 32) | count;
  }

  /** Tables in flight. */
  @inline
  get count(): u32 {
    return <u32>(this.inFlight >> 32);
  }

  /** Their descriptors in use. */
  @inline
  get descriptors(): u32 {
    return <u32>this.inFlight;
  }

  /** Granules that the table at an address may fill. */
  room(address: u32): u32 {
    return this.general.room((address - <u32>this.base) >> <u32>GRANULE_SHIFT);
  }
}

// The host reads and writes these by the numbers of layout.ts; a moved field must not compile.
if (
  offsetof<Tables>('hits') != (COUNT_TABLE_HITS - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('misses') != (COUNT_TABLE_MISSES - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('refills') != (COUNT_TABLE_REFILLS - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('wasted') != (COUNT_TABLE_WASTED - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('returned') != (COUNT_TABLE_RETURNED - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('highWater') != (COUNT_TABLE_HIGH_WATER - COUNT_TABLE_HITS) * 8 ||
  offsetof<Tables>('inFlight') != TABLES_IN_FLIGHT ||
  offsetof<Tables>('general') != TABLES_HEAD_BYTES
)
  ERROR('indirect/tables.ts and abi/layout.ts disagree');
