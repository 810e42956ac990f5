// General allocator of indirect tables: a range of memory cut into granules of 16 bytes, one descriptor
// each. A bitmap in private memory says which are taken, so nothing that a peer can write is followed.

import { DESC_BYTES } from '../abi/layout';

@unmanaged
export class Granules {
  /** Local address of granule 0. */
  base: usize;
  /** Bitmap, 64 granules a word, 1 = taken; private memory. */
  bitmap: usize;
  /** Number of granules. */
  total: u32;
  /** Where the next search starts: behind the last table taken or at the last one given back. */
  cursor: u32;
  /** Granules taken. */
  taken: u32;

  init(base: usize, total: u32, bitmap: usize): void {
    this.base = base;
    this.total = total;
    this.bitmap = bitmap;
    this.reset();
  }

  reset(): void {
    memory.fill(this.bitmap, 0, (<usize>(this.total + 63) >> 6) << 3);
    this.cursor = 0;
    this.taken = 0;
  }

  /** Address of `count` adjoining granules, or 0 if there are none. */
  alloc(count: u32): usize {
    let at = this.search(this.cursor, count);
    if (at < 0) at = this.search(0, count);
    if (at < 0) return 0;
    this.mark(<u32>at, count, true);
    this.cursor = <u32>at + count;
    this.taken += count;
    return this.base + <usize>at * DESC_BYTES;
  }

  /** Marks the table that a restored queue has in flight. The host has checked that it is free. */
  take(address: usize, count: u32): void {
    this.mark(<u32>((address - this.base) / DESC_BYTES), count, true);
    this.taken += count;
  }

  /** Gives back what `alloc(count)` returned. */
  free(address: usize, count: u32): void {
    const at = <u32>((address - this.base) / DESC_BYTES);
    this.mark(at, count, false);
    this.cursor = at;
    this.taken -= count;
  }

  /** First run of `count` free granules from `from` on, or -1. */
  private search(from: u32, count: u32): i32 {
    const total = this.total;
    let at = from;
    // 64-bit sums: at + count stays exact for every count. `at` grows in each round, so this ends.
    while (<u64>at + count <= <u64>total) {
      at = this.next(at, total, false);
      if (<u64>at + count > <u64>total) return -1;
      const end = this.next(at, at + count, true);
      if (end == at + count) return <i32>at;
      at = end;
    }
    return -1;
  }

  /** First granule in [from, to) whose state is `taken`, or `to`. Reads the bitmap a word at a time. */
  private next(from: u32, to: u32, taken: bool): u32 {
    const flip: u64 = taken ? 0 : -1;
    let at = from;
    while (at < to) {
      const word = (load<u64>(this.bitmap + ((<usize>at >> 6) << 3)) ^ flip) >> (<u64>at & 63);
      if (word != 0) {
        at += <u32>ctz(word);
        return at < to ? at : to;
      }
      at = (at | 63) + 1;
    }
    return to;
  }

  private mark(from: u32, count: u32, taken: bool): void {
    let at = from;
    let left = count;
    while (left > 0) {
      const shift = at & 63;
      const bits = min<u32>(64 - shift, left);
      const mask = (<u64>-1 >> (64 - bits)) << shift;
      const address = this.bitmap + ((<usize>at >> 6) << 3);
      const word = load<u64>(address);
      // A granule handed out twice or given back twice would give one table to two buffers.
      assert((word & mask) == (taken ? 0 : mask));
      store<u64>(address, taken ? word | mask : word & ~mask);
      at += bits;
      left -= bits;
    }
  }
}
