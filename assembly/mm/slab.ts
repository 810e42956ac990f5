// Slab caches: pages cut into objects of one size. Objects are known by their first granule (16 bytes) in
// the memory, so where they lie and which are free stands in private memory alone.

import { NONE, Pages } from './pages';

/** Link of a granule that is handed out; kept by debug builds only, to notice what is given back twice. */
const TAKEN: u32 = 0xffff_fffe;

/** What is known of a page that is in use: of the first one, if it is a block. */
@unmanaged
export class Slab {
  /** SlabCache that it belongs to; 0 if it is one object of a block of pages, or its cache was closed. */
  cache: usize;
  /** The slab behind it in its cache's list. */
  next: u32;
  /** First free object; NONE if there is none. */
  free: u32;
  inUse: u32;
  /** Granules of an object. */
  granules: u32;
}

/** What the caches of one memory share. */
@unmanaged
export class SlabMemory {
  pages: Pages;
  /** Slab[pages.total] */
  slabs: usize;
  /** u32[granules]: the free object behind a free one. Whoever has an object may use its link. */
  links: usize;
  /** log2 of the granules of a page. */
  shift: u32;
  /** Slabs without an object in use. They stay with their caches until pages run out. */
  empties: u32;

  @inline
  slab(page: u32): Slab {
    return changetype<Slab>(this.slabs + <usize>page * offsetof<Slab>());
  }

  @inline
  link(granule: u32): u32 {
    return load<u32>(this.links + ((<usize>granule) << 2));
  }

  @inline
  linkSet(granule: u32, next: u32): void {
    store<u32>(this.links + ((<usize>granule) << 2), next);
  }

  /** In debug builds: the object is handed out from now on. */
  @inline
  hand(granule: u32): void {
    if (!ASC_NO_ASSERT) {
      assert(this.link(granule) != TAKEN);
      this.linkSet(granule, TAKEN);
    }
  }

  /** In debug builds: traps if the object is not handed out. */
  @inline
  back(granule: u32): void {
    if (!ASC_NO_ASSERT) assert(granule >> this.shift < this.pages.total && this.link(granule) == TAKEN);
  }

  /** Granules of the object that starts here. */
  room(granule: u32): u32 {
    return this.slab(granule >> this.shift).granules;
  }

  /** First page of a block; if there is none, from what empty slabs give back. NONE if that does not help. */
  take(order: u32): u32 {
    const page = this.pages.alloc(order);
    if (page != NONE || this.empties == 0) return page;
    this.shrink();
    return this.pages.alloc(order);
  }

  /** Gives the pages of empty slabs back. */
  shrink(): void {
    for (let page: u32 = 0, left = this.empties; left > 0; page++) {
      if (!ASC_NO_ASSERT) assert(page < this.pages.total);
      const slab = this.slab(page);
      if (slab.cache == 0 || slab.inUse != 0) continue;
      changetype<SlabCache>(slab.cache).drop(page);
      left--;
    }
  }

  /** Gives an object back to the slab that it is of, whichever that is. */
  free(granule: u32): void {
    const page = granule >> this.shift;
    this.back(granule);
    const slab = this.slab(page);
    assert(slab.inUse > 0);
    const first = slab.free;
    this.linkSet(granule, first);
    slab.free = granule;
    if (first == NONE) this.listed(page, slab);
    if (--slab.inUse == 0) this.emptied(page, slab);
  }

  /** Gives back `n` objects, u32[n]: the books of a slab are opened once for each run of objects of it. */
  freeBulk(granules: usize, n: u32): void {
    let i: u32 = 0;
    while (i < n) {
      const page = load<u32>(granules + ((<usize>i) << 2)) >> this.shift;
      if (!ASC_NO_ASSERT) assert(page < this.pages.total);
      const slab = this.slab(page);
      let first = slab.free;
      if (first == NONE) this.listed(page, slab);
      let count: u32 = 0;
      for (; i < n; i++) {
        const granule = load<u32>(granules + ((<usize>i) << 2));
        if (granule >> this.shift != page) break;
        this.back(granule);
        this.linkSet(granule, first);
        first = granule;
        count++;
      }
      slab.free = first;
      assert(slab.inUse >= count);
      slab.inUse -= count;
      if (slab.inUse == 0) this.emptied(page, slab);
    }
  }

  /** A slab that was full has a free object again. */
  private listed(page: u32, slab: Slab): void {
    if (slab.cache == 0) return;
    const cache = changetype<SlabCache>(slab.cache);
    slab.next = cache.partial;
    cache.partial = page;
  }

  private emptied(page: u32, slab: Slab): void {
    if (slab.cache != 0) this.empties++;
    else this.release(page, slab);
  }

  /** Gives the pages of a slab or a large object back. */
  release(page: u32, slab: Slab): void {
    const pages = slab.granules >> this.shift;
    this.pages.free(page, pages > 1 ? 31 - clz(pages) : 0);
    slab.granules = 0;
  }

  /**
   * Notes that the object at `granule` is in use, of a slab whose objects have so many granules: what a
   * restored queue has. `cache` is where the slab belongs, 0 for none. The host has checked that it may be.
   */
  adopt(granule: u32, granules: u32, cache: usize): void {
    const page = granule >> this.shift;
    const slab = this.slab(page);
    const pages = granules >> this.shift;
    if (slab.granules == 0) {
      const free = this.pages.take(page, pages > 1 ? 31 - clz(pages) : 0);
      assert(free);
      this.open(page, slab, granules, pages > 1 ? 0 : cache);
      if (pages <= 1 && cache != 0) {
        this.listed(page, slab);
        this.empties++;
      }
    }
    // Its free objects are in ascending order: look for this one among them.
    let before = NONE;
    let at = slab.free;
    while (at != granule) {
      assert(at != NONE);
      before = at;
      at = this.link(at);
    }
    if (before == NONE) slab.free = this.link(at);
    else this.linkSet(before, this.link(at));
    this.hand(granule);
    if (slab.inUse++ == 0 && slab.cache != 0) this.empties--;
    if (slab.free == NONE && slab.cache != 0) changetype<SlabCache>(slab.cache).unlist(page);
  }

  /** Objects in use; traps in debug builds if a page is neither free nor of a slab. */
  get inUse(): u32 {
    let objects: u32 = 0;
    let pages: u32 = 0;
    let blocks: u64 = 0;
    for (let page: u32 = 0; page < this.pages.total; page++) {
      const slab = this.slab(page);
      if (slab.granules == 0) continue;
      objects += slab.inUse;
      pages += max<u32>(slab.granules >> this.shift, 1);
      blocks++;
    }
    assert(pages == this.pages.taken && blocks == this.pages.allocs - this.pages.frees);
    return objects;
  }

  /** Cuts a page into objects, the first one first. */
  open(page: u32, slab: Slab, granules: u32, cache: usize): void {
    const first = page << this.shift;
    const size: u32 = 1 << this.shift;
    slab.cache = cache;
    slab.inUse = 0;
    slab.granules = granules;
    slab.free = first;
    let at = first;
    for (let end = granules + granules; end <= size; end += granules) {
      this.linkSet(at, at + granules);
      at += granules;
    }
    this.linkSet(at, NONE);
  }
}

/** Objects of one size. */
@unmanaged
export class SlabCache {
  memory: SlabMemory;
  /** Granules of an object, at most those of a page; 0 while the cache is closed. */
  granules: u32;
  /** First of the slabs that have a free object. */
  partial: u32;
  /** Slabs taken from the page allocator so far. */
  grown: u64;

  init(memory: SlabMemory, granules: u32): void {
    this.memory = memory;
    this.granules = granules;
    this.partial = NONE;
    this.grown = 0;
  }

  /** An object, or NONE: of the slab that got one back last. */
  alloc(): u32 {
    const memory = this.memory;
    let page = this.partial;
    if (page == NONE) {
      page = this.grow();
      if (page == NONE) return NONE;
    }
    const slab = memory.slab(page);
    const granule = slab.free;
    const next = memory.link(granule);
    slab.free = next;
    if (slab.inUse++ == 0) memory.empties--;
    if (next == NONE) this.partial = slab.next;
    memory.hand(granule);
    return granule;
  }

  /** Up to `n` objects to u32[n], as so many calls of `alloc` would give them. Returns how many. */
  allocBulk(granules: usize, n: u32): u32 {
    const memory = this.memory;
    let taken: u32 = 0;
    while (taken < n) {
      let page = this.partial;
      if (page == NONE) {
        page = this.grow();
        if (page == NONE) break;
      }
      const slab = memory.slab(page);
      const start = taken;
      let granule = slab.free;
      while (taken < n && granule != NONE) {
        store<u32>(granules + ((<usize>taken) << 2), granule);
        taken++;
        const next = memory.link(granule);
        memory.hand(granule);
        granule = next;
      }
      slab.free = granule;
      if (slab.inUse == 0) memory.empties--;
      slab.inUse += taken - start;
      if (granule == NONE) this.partial = slab.next;
    }
    return taken;
  }

  /** A new slab, in front of the others, or NONE. */
  private grow(): u32 {
    const memory = this.memory;
    const page = memory.take(0);
    if (page == NONE) return NONE;
    const slab = memory.slab(page);
    memory.open(page, slab, this.granules, changetype<usize>(this));
    slab.next = this.partial;
    this.partial = page;
    memory.empties++;
    this.grown++;
    return page;
  }

  /** Gives an empty slab back. */
  drop(page: u32): void {
    const slab = this.memory.slab(page);
    this.unlist(page);
    this.memory.empties--;
    slab.cache = 0;
    this.memory.release(page, slab);
  }

  /** Takes a slab out of the list of those that have a free object. */
  unlist(page: u32): void {
    const memory = this.memory;
    if (this.partial == page) {
      this.partial = memory.slab(page).next;
      return;
    }
    let at = this.partial;
    while (memory.slab(at).next != page) at = memory.slab(at).next;
    memory.slab(at).next = memory.slab(page).next;
  }

  /** Closes the cache. Slabs with objects in use go when the last of these comes back. */
  close(): void {
    const memory = this.memory;
    for (let page: u32 = 0; page < memory.pages.total; page++) {
      const slab = memory.slab(page);
      if (slab.cache != changetype<usize>(this)) continue;
      if (slab.inUse == 0) this.drop(page);
      else slab.cache = 0;
    }
    this.partial = NONE;
    this.granules = 0;
  }
}
