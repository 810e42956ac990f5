// General allocator: runs of granules (16 bytes) of any length. A slab cache for each power of two up to a
// page; what is longer gets a block of pages.

import { NONE, Pages } from './pages';
import { Slab, SlabCache, SlabMemory } from './slab';

/** 2^0 … 2^8 granules: a page has at most 4096 bytes. */
const CLASSES: u32 = 9;

@unmanaged
export class General extends SlabMemory {
  /** SlabCache[CLASSES] */
  private caches: usize;

  /** Private memory that it needs beside itself. */
  static bytes(pages: u32, shift: u32): u32 {
    return (
      offsetof<Pages>() +
      CLASSES * offsetof<SlabCache>() +
      ((Pages.bytes(pages) + 7) & ~7) +
      pages * offsetof<Slab>() +
      ((pages << shift) << 2)
    );
  }

  init(pages: u32, shift: u32, memory: usize): void {
    let at = memory;
    this.pages = changetype<Pages>(at);
    at += offsetof<Pages>();
    this.caches = at;
    at += CLASSES * offsetof<SlabCache>();
    this.slabs = at + ((Pages.bytes(pages) + 7) & ~7);
    this.links = this.slabs + pages * offsetof<Slab>();
    this.shift = shift;
    this.pages.init(pages, at);
    this.clear();
  }

  reset(): void {
    this.pages.reset();
    this.clear();
  }

  private clear(): void {
    this.empties = 0;
    memory.fill(this.slabs, 0, <usize>this.pages.total * offsetof<Slab>());
    // Nothing is handed out, whatever the links say that nobody has set yet.
    if (!ASC_NO_ASSERT) memory.fill(this.links, 0xff, ((<usize>this.pages.total) << this.shift) << 2);
    for (let i: u32 = 0; i < CLASSES; i++) this.cache(i).init(this, 1 << i);
  }

  @inline
  private cache(index: u32): SlabCache {
    return changetype<SlabCache>(this.caches + <usize>index * offsetof<SlabCache>());
  }

  /** First of at least `count` adjoining granules, or NONE. `count` is at least 1. */
  alloc(count: u32): u32 {
    if (count > (<u32>1) << this.shift) return this.allocPages(count);
    return this.cache(32 - clz(count - 1)).alloc();
  }

  /** Granules that `alloc(count)` gives. */
  roomOf(count: u32): u32 {
    return (<u32>1) << (32 - clz(count - 1));
  }

  private allocPages(count: u32): u32 {
    const pages = (count - 1) >> this.shift;
    const order = 32 - clz(pages);
    const page = this.take(order);
    if (page == NONE) return NONE;
    const slab = this.slab(page);
    this.open(page, slab, ((<u32>1) << this.shift) << order, 0);
    const granule = slab.free;
    slab.free = NONE;
    slab.inUse = 1;
    this.hand(granule);
    return granule;
  }

  /** Notes that a restored queue has the object of so many granules at `granule` in use. */
  restore(granule: u32, granules: u32): void {
    // Another size than a power of two is of a cache that was closed.
    const known = popcnt(granules) == 1 && granules <= (<u32>1) << this.shift;
    this.adopt(granule, granules, known ? changetype<usize>(this.cache(31 - clz(granules))) : 0);
  }
}
