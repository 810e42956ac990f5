// Page allocator: a range of equal pages, given out in blocks of 2^order pages, each at a multiple of its
// size. It knows page numbers, not addresses, and keeps all its books in private memory.

/** No page, no granule. */
export const NONE: u32 = 0xffff_ffff;

/** Orders 0 … 28: pages of at least 16 bytes in 2^32 bytes. */
const ORDERS: u32 = 29;

/** With the order, `next` of the first page of a block that is given out; kept by debug builds only. */
const TAKEN: u32 = 0x8000_0000;

/** What is known of a page. It means something in the first page of a free block. */
@unmanaged
class Page {
  /** Order of the free block that starts here, plus 1; 0 if none does. */
  free: u32;
  /** Neighbours in the list of free blocks of this order. */
  next: u32;
  prev: u32;
}

@unmanaged
export class Pages {
  /** Page[total] */
  private records: usize;
  /** u32[ORDERS]: first free block of each order. */
  private heads: usize;
  total: u32;
  /** Pages given out. */
  taken: u32;
  /** Blocks given out, given back (a reset gives all of them back), and asked for in vain. */
  allocs: u64;
  frees: u64;
  failures: u64;

  /** Private memory that it needs beside itself. */
  static bytes(total: u32): u32 {
    return ORDERS * 4 + total * offsetof<Page>();
  }

  init(total: u32, memory: usize): void {
    this.heads = memory;
    this.records = memory + ORDERS * 4;
    this.total = total;
    this.allocs = 0;
    this.frees = 0;
    this.failures = 0;
    this.reset();
  }

  /** Everything free: the largest blocks that fit, from page 0 on. */
  reset(): void {
    const total = this.total;
    memory.fill(this.heads, 0xff, ORDERS * 4);
    memory.fill(this.records, 0, <usize>total * offsetof<Page>());
    this.taken = 0;
    this.frees = this.allocs;
    let at: u32 = 0;
    // Descending powers of two: each block lies at a multiple of its size.
    while (at < total) {
      const order = 31 - clz(total - at);
      this.insert(at, order);
      at += 1 << order;
    }
  }

  /** First page of a block of 2^order pages, or NONE. The lower half of the smallest block that will do. */
  alloc(order: u32): u32 {
    for (let k = order; k < ORDERS; k++) {
      const page = this.head(k);
      if (page == NONE) continue;
      this.remove(page, k);
      while (k > order) {
        k--;
        this.insert(page + (1 << k), k);
      }
      this.hand(page, order);
      return page;
    }
    this.failures++;
    return NONE;
  }

  /** Takes the block at `page`, which a restored queue has in use. False if it is not free. */
  take(page: u32, order: u32): bool {
    for (let k = order; k < ORDERS; k++) {
      let at = page & ~((1 << k) - 1);
      if (at >= this.total || this.page(at).free != k + 1) continue;
      this.remove(at, k);
      while (k > order) {
        k--;
        const half: u32 = 1 << k;
        this.insert(page & half ? at : at + half, k);
        if (page & half) at += half;
      }
      this.hand(at, order);
      return true;
    }
    return false;
  }

  /** Gives back what `alloc(order)` returned; neighbours that are free become one block with it. */
  free(page: u32, order: u32): void {
    this.back(page, order);
    this.taken -= 1 << order;
    this.frees++;
    let at = page;
    let k = order;
    for (; k + 1 < ORDERS; k++) {
      const buddy = at ^ (1 << k);
      if (buddy >= this.total || this.page(buddy).free != k + 1) break;
      this.remove(buddy, k);
      at &= ~(1 << k);
    }
    this.insert(at, k);
  }

  private hand(page: u32, order: u32): void {
    this.taken += 1 << order;
    this.allocs++;
    if (!ASC_NO_ASSERT) this.page(page).next = TAKEN | order;
  }

  /** In debug builds: traps if this is no block that was given out. */
  @inline
  private back(page: u32, order: u32): void {
    if (!ASC_NO_ASSERT) {
      assert(page < this.total && order < ORDERS);
      const first = this.page(page);
      assert(first.free == 0 && first.next == (TAKEN | order));
      first.next = NONE;
    }
  }

  @inline
  private page(index: u32): Page {
    return changetype<Page>(this.records + <usize>index * offsetof<Page>());
  }

  @inline
  private head(order: u32): u32 {
    return load<u32>(this.heads + ((<usize>order) << 2));
  }

  private insert(index: u32, order: u32): void {
    const page = this.page(index);
    const next = this.head(order);
    page.free = order + 1;
    page.next = next;
    page.prev = NONE;
    if (next != NONE) this.page(next).prev = index;
    store<u32>(this.heads + ((<usize>order) << 2), index);
  }

  private remove(index: u32, order: u32): void {
    const page = this.page(index);
    page.free = 0;
    if (page.next != NONE) this.page(page.next).prev = page.prev;
    if (page.prev != NONE) this.page(page.prev).next = page.next;
    else store<u32>(this.heads + ((<usize>order) << 2), page.next);
  }
}
