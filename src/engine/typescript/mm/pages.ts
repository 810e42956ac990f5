/** No page, no granule: -1 as an unsigned number. */
export const NONE = 0xffffffff;

const ORDERS = 29;

/**
 * Buddy allocator of page numbers: blocks of 2^order pages at multiples of their size. Its books are on the
 * JavaScript heap, where no peer can write.
 */
export class Pages {
  readonly total: number;
  /** Pages given out. */
  taken = 0;
  /** Blocks given out, given back (`clear` gives all of them back), and asked for in vain. */
  allocs = 0;
  frees = 0;
  failures = 0;
  /** For the first page of a free block: its order + 1. 0 for every other page. */
  private readonly order: Uint8Array;
  /** Ring lists of free blocks: entry `total + k` is the head of order k. */
  private readonly next: Uint32Array;
  private readonly prev: Uint32Array;

  constructor(total: number) {
    this.total = total;
    this.order = new Uint8Array(total);
    this.next = new Uint32Array(total + ORDERS);
    this.prev = new Uint32Array(total + ORDERS);
    this.clear();
  }

  /** Everything free, in the largest blocks that fit. */
  clear(): void {
    const { total, next, prev } = this;
    this.order.fill(0);
    for (let k = 0; k < ORDERS; k++) next[total + k] = prev[total + k] = total + k;
    this.taken = 0;
    this.frees = this.allocs;
    for (let at = 0; at < total; ) {
      const order = 31 - Math.clz32(total - at);
      this.insert(at, order);
      at += 1 << order;
    }
  }

  /** First page of a block of 2^order pages, or NONE. */
  alloc(order: number): number {
    const { total, next } = this;
    let k = order;
    while (k < ORDERS && next[total + k] === total + k) k++;
    if (k >= ORDERS) {
      this.failures++;
      return NONE;
    }
    const page = next[total + k];
    this.remove(page);
    // The upper halves stay free, the largest first.
    while (k > order) this.insert(page + (1 << --k), k);
    this.taken += 1 << order;
    this.allocs++;
    return page;
  }

  /** Takes the block at `page`, for a restored queue. False if it is not free. */
  take(page: number, order: number): boolean {
    for (let k = order; k < ORDERS; k++) {
      const start = page - (page & ((1 << k) - 1));
      if (start >= this.total || this.order[start] !== k + 1) continue;
      this.remove(start);
      let at = start;
      for (let half = k - 1; half >= order; half--) {
        const upper = at + (1 << half);
        this.insert(page < upper ? upper : at, half);
        if (page >= upper) at = upper;
      }
      this.taken += 1 << order;
      this.allocs++;
      return true;
    }
    return false;
  }

  /** Gives back what `alloc(order)` returned. */
  free(page: number, order: number): void {
    this.taken -= 1 << order;
    this.frees++;
    let at = page;
    let k = order;
    for (; k + 1 < ORDERS; k++) {
      const size = 1 << k;
      const buddy = at % (2 * size) === 0 ? at + size : at - size;
      if (buddy >= this.total || this.order[buddy] !== k + 1) break;
      this.remove(buddy);
      at = Math.min(at, buddy);
    }
    this.insert(at, k);
  }

  private insert(page: number, order: number): void {
    const { next, prev } = this;
    const head = this.total + order;
    this.order[page] = order + 1;
    next[page] = next[head];
    prev[page] = head;
    prev[next[head]] = page;
    next[head] = page;
  }

  private remove(page: number): void {
    const { next, prev } = this;
    this.order[page] = 0;
    next[prev[page]] = next[page];
    prev[next[page]] = prev[page];
  }
}
