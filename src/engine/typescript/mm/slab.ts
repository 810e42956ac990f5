import { NONE, Pages } from './pages.js';

// What is known of a page, words page * 4 + … of `slabs`.
const SHIFT = 2;
/** The slab behind it in its cache's list. */
const NEXT = 0;
/** First free object. */
const FREE = 1;
const IN_USE = 2;
/** Bits 0-23: granules of an object, 0 while the page is no slab. Bits 24-31: cache that it belongs to. */
const KIND = 3;
const GRANULES = 0xffffff;
const CACHE_SHIFT = 24;
/** In place of a cache: one object of a block of pages, or a slab whose cache was closed. */
const NO_CACHE = 0xff;

/**
 * Slab caches over one range of pages. Objects are known by their first granule. Caches are numbers, the ones
 * that `open` was told.
 */
export class Slabs {
  readonly pages: Pages;
  /** The free object behind a free one. Whoever has an object may use its link. */
  readonly links: Uint32Array;
  /** log2 of the granules of a page. */
  readonly shift: number;
  /** Slabs that each cache made, since it was opened first. */
  readonly grown: Float64Array;
  private readonly slabs: Uint32Array;
  /** First slab with a free object, by cache. */
  private readonly partial: Uint32Array;
  /** Granules of an object, by cache; 0 while it is closed. */
  private readonly size: Uint32Array;
  /** Slabs without an object in use. */
  private empties = 0;

  constructor(pages: number, shift: number, caches: number) {
    this.pages = new Pages(pages);
    this.shift = shift;
    this.links = new Uint32Array(pages << shift);
    this.slabs = new Uint32Array(pages << SHIFT);
    this.partial = new Uint32Array(caches).fill(NONE);
    this.size = new Uint32Array(caches);
    this.grown = new Float64Array(caches);
  }

  /** Everything free. The caches stay open. */
  clear(): void {
    this.pages.clear();
    this.slabs.fill(0);
    this.partial.fill(NONE);
    this.empties = 0;
  }

  open(cache: number, granules: number): void {
    this.size[cache] = granules;
  }

  /** Slabs with objects in use go when the last of these comes back. */
  close(cache: number): void {
    const { slabs } = this;
    for (let page = 0; page < this.pages.total; page++) {
      const s = page << SHIFT;
      const kind = slabs[s + KIND];
      if ((kind & GRANULES) === 0 || kind >>> CACHE_SHIFT !== cache) continue;
      if (slabs[s + IN_USE] === 0) this.drop(page);
      else slabs[s + KIND] = (kind & GRANULES) | (NO_CACHE << CACHE_SHIFT);
    }
    this.partial[cache] = NONE;
    this.size[cache] = 0;
  }

  isOpen(cache: number): boolean {
    return this.size[cache] !== 0;
  }

  /** An object of a cache, or NONE. */
  alloc(cache: number): number {
    const { slabs, partial } = this;
    if (partial[cache] === NONE && !this.grow(cache)) return NONE;
    const s = partial[cache] << SHIFT;
    const granule = slabs[s + FREE];
    const next = this.links[granule];
    slabs[s + FREE] = next;
    if (slabs[s + IN_USE]++ === 0) this.empties--;
    if (next === NONE) partial[cache] = slabs[s + NEXT];
    return granule;
  }

  /** Up to `n` objects into `out`, as `alloc` would give them one by one. Returns how many. */
  allocBulk(cache: number, out: Uint32Array, n: number): number {
    const { slabs, partial, links } = this;
    let taken = 0;
    while (taken < n && (partial[cache] !== NONE || this.grow(cache))) {
      const s = partial[cache] << SHIFT;
      const before = taken;
      let granule = slabs[s + FREE];
      for (; taken < n && granule !== NONE; granule = links[granule]) out[taken++] = granule;
      slabs[s + FREE] = granule;
      if (slabs[s + IN_USE] === 0) this.empties--;
      slabs[s + IN_USE] += taken - before;
      if (granule === NONE) partial[cache] = slabs[s + NEXT];
    }
    return taken;
  }

  /** An object of so many granules that is longer than a page, or NONE. */
  allocLarge(granules: number): number {
    const order = 32 - Math.clz32((granules - 1) >>> this.shift);
    const page = this.take(order);
    if (page === NONE) return NONE;
    const s = page << SHIFT;
    this.slabs[s + FREE] = NONE;
    this.slabs[s + IN_USE] = 1;
    this.slabs[s + KIND] = (1 << (order + this.shift)) | (NO_CACHE << CACHE_SHIFT);
    return page << this.shift;
  }

  /** Gives an object of any cache back. */
  free(granule: number): void {
    const { slabs } = this;
    const page = granule >>> this.shift;
    const s = page << SHIFT;
    const first = slabs[s + FREE];
    this.links[granule] = first;
    slabs[s + FREE] = granule;
    if (first === NONE) this.list(page);
    if (--slabs[s + IN_USE] === 0) this.emptied(page);
  }

  /** Gives the first `n` objects of a list back. */
  freeBulk(granules: Uint32Array, n: number): void {
    const { slabs, links, shift } = this;
    for (let i = 0; i < n; ) {
      const page = granules[i] >>> shift;
      const s = page << SHIFT;
      let first = slabs[s + FREE];
      if (first === NONE) this.list(page);
      const from = i;
      for (; i < n && granules[i] >>> shift === page; i++) {
        links[granules[i]] = first;
        first = granules[i];
      }
      slabs[s + FREE] = first;
      slabs[s + IN_USE] -= i - from;
      if (slabs[s + IN_USE] === 0) this.emptied(page);
    }
  }

  /** Granules of the object that starts here. */
  room(granule: number): number {
    return this.slabs[((granule >>> this.shift) << SHIFT) + KIND] & GRANULES;
  }

  /** Gives the pages of slabs without an object in use back. */
  shrink(): void {
    const { slabs } = this;
    for (let page = 0; this.empties > 0; page++) {
      const s = page << SHIFT;
      const kind = slabs[s + KIND];
      if ((kind & GRANULES) !== 0 && kind >>> CACHE_SHIFT !== NO_CACHE && slabs[s + IN_USE] === 0)
        this.drop(page);
    }
  }

  /**
   * Takes the object of so many granules at `granule`, for a restored queue: of a slab of `cache`, -1 for none.
   * By ascending address.
   */
  adopt(granule: number, granules: number, cache: number): void {
    const { slabs, links } = this;
    const page = granule >>> this.shift;
    const s = page << SHIFT;
    if ((slabs[s + KIND] & GRANULES) === 0) {
      const pages = granules >>> this.shift;
      this.pages.take(page, pages > 1 ? Math.log2(pages) : 0);
      if (pages > 1) {
        slabs[s + FREE] = NONE;
        slabs[s + IN_USE] = 1;
        slabs[s + KIND] = granules | (NO_CACHE << CACHE_SHIFT);
        return;
      }
      this.cut(page, granules, cache < 0 ? NO_CACHE : cache);
      if (cache >= 0) {
        this.list(page);
        this.empties++;
      }
    }
    if (slabs[s + FREE] === granule) {
      slabs[s + FREE] = links[granule];
    } else {
      let at = slabs[s + FREE];
      while (links[at] !== granule) at = links[at];
      links[at] = links[granule];
    }
    if (slabs[s + IN_USE]++ === 0 && cache >= 0) this.empties--;
    if (slabs[s + FREE] === NONE && cache >= 0) this.unlist(page, cache);
  }

  private grow(cache: number): boolean {
    const page = this.take(0);
    if (page === NONE) return false;
    this.cut(page, this.size[cache], cache);
    this.list(page);
    this.empties++;
    this.grown[cache]++;
    return true;
  }

  /** A block of pages; where there is none, of what slabs without an object in use give back. */
  private take(order: number): number {
    const page = this.pages.alloc(order);
    if (page !== NONE || this.empties === 0) return page;
    this.shrink();
    return this.pages.alloc(order);
  }

  /** Cuts a page into objects, the first one first. */
  private cut(page: number, granules: number, cache: number): void {
    const { slabs, links } = this;
    const first = page << this.shift;
    const end = (page + 1) << this.shift;
    const s = page << SHIFT;
    slabs[s + FREE] = first;
    slabs[s + IN_USE] = 0;
    slabs[s + KIND] = granules | (cache << CACHE_SHIFT);
    let at = first;
    for (; at + 2 * granules <= end; at += granules) links[at] = at + granules;
    links[at] = NONE;
  }

  /** Puts a slab in front of those of its cache that have a free object. */
  private list(page: number): void {
    const cache = this.slabs[(page << SHIFT) + KIND] >>> CACHE_SHIFT;
    if (cache === NO_CACHE) return;
    this.slabs[(page << SHIFT) + NEXT] = this.partial[cache];
    this.partial[cache] = page;
  }

  private unlist(page: number, cache: number): void {
    const { slabs, partial } = this;
    const next = slabs[(page << SHIFT) + NEXT];
    if (partial[cache] === page) {
      partial[cache] = next;
      return;
    }
    let s = partial[cache] << SHIFT;
    while (slabs[s + NEXT] !== page) s = slabs[s + NEXT] << SHIFT;
    slabs[s + NEXT] = next;
  }

  private emptied(page: number): void {
    if (this.slabs[(page << SHIFT) + KIND] >>> CACHE_SHIFT !== NO_CACHE) this.empties++;
    else this.release(page);
  }

  private drop(page: number): void {
    this.unlist(page, this.slabs[(page << SHIFT) + KIND] >>> CACHE_SHIFT);
    this.empties--;
    this.release(page);
  }

  private release(page: number): void {
    const s = page << SHIFT;
    const pages = (this.slabs[s + KIND] & GRANULES) >>> this.shift;
    this.slabs[s + KIND] = 0;
    this.pages.free(page, pages > 1 ? Math.log2(pages) : 0);
  }
}
