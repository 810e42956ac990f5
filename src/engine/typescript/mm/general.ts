import { Slabs } from './slab.js';

/** 2^0 … 2^8 granules. */
const CLASSES = 9;

/** Runs of granules of any length: a slab cache for each power of two up to a page, and blocks of pages. */
export class General extends Slabs {
  /** @param caches beside those of its own; their numbers are 0 … caches-1 */
  constructor(
    pages: number,
    shift: number,
    private readonly caches: number,
  ) {
    super(pages, shift, caches + CLASSES);
    for (let i = 0; i < CLASSES; i++) this.open(caches + i, 1 << i);
  }

  /** First of at least `count` adjacent granules, or NONE. */
  allocRun(count: number): number {
    if (count > 1 << this.shift) return this.allocLarge(count);
    return this.alloc(this.caches + 32 - Math.clz32(count - 1));
  }

  /** Granules that `allocRun(count)` gives. */
  roomOf(count: number): number {
    return 1 << (32 - Math.clz32(count - 1));
  }

  /** Takes what a restored queue has in use. */
  restore(granule: number, granules: number): void {
    const power = 31 - Math.clz32(granules);
    const known = granules === 1 << power && power <= this.shift;
    this.adopt(granule, granules, known ? this.caches + power : -1);
  }
}
