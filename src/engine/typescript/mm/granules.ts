/**
 * Allocator of runs of equal granules: which of them are taken, not where they lie. The map is on the
 * JavaScript heap, where no peer can write.
 *
 * One bit per granule, set while taken. Granule 0 is the highest bit of word 0, so that `Math.clz32` of a
 * word shifted left counts the free granules that follow a position.
 */
export class Granules {
  /** Granules in all. */
  readonly total: number;
  /** Granules taken. */
  used = 0;
  private readonly words: Uint32Array;
  /** Where the next search starts: 0 to `total`. */
  cursor = 0;
  private readonly checked: boolean;

  /**
   * @param total number of granules, 0 to 2^28
   * @param checked verify on release that every granule of the run is taken (for tests; costs a pass)
   */
  constructor(total: number, checked = false) {
    this.total = total;
    this.checked = checked;
    this.words = new Uint32Array((total + 31) >>> 5);
    this.clear();
  }

  /** Everything free again, the search from 0. */
  clear(): void {
    const { words, total } = this;
    words.fill(0);
    // What lies behind the end counts as taken: so a run never leaves the range, and no search looks for it.
    if (total & 31) words[total >>> 5] = 0xffffffff >>> (total & 31);
    this.used = 0;
    this.cursor = 0;
  }

  /**
   * Takes `count` (at least 1) adjacent granules: the first run at or behind the cursor, or else the first of
   * all. A run does not wrap.
   *
   * @returns index of the first granule, or -1 if there is no such run
   */
  alloc(count: number): number {
    // Also spares the two passes over a full map, the usual reason for failure.
    if (count > this.total - this.used) return -1;
    let start = this.find(this.cursor, count);
    if (start < 0 && this.cursor !== 0) start = this.find(0, count);
    if (start < 0) return -1;
    this.mark(start, count);
    this.used += count;
    this.cursor = start + count;
    return start;
  }

  /** Takes the run at `start`, which is free: what a restored state had. The cursor stays. */
  take(start: number, count: number): void {
    this.mark(start, count);
    this.used += count;
  }

  /** Gives back a run that `alloc` returned, whole. */
  release(start: number, count: number): void {
    if (this.checked) this.check(start, count);
    const { words } = this;
    let word = start >>> 5;
    const last = (start + count - 1) >>> 5;
    const head = 0xffffffff >>> (start & 31);
    const tail = 0xffffffff << (31 - ((start + count - 1) & 31));
    if (word === last) {
      words[word] &= ~(head & tail);
    } else {
      words[word] &= ~head;
      for (word++; word < last; word++) words[word] = 0;
      words[last] &= ~tail;
    }
    this.used -= count;
    this.cursor = start;
  }

  /** First run of `count` free granules that starts at `from` or behind it, or -1. */
  private find(from: number, count: number): number {
    const { words } = this;
    const end = words.length << 5;
    let start = from;
    let at = from;
    // Each turn moves `at` by one bit at least and by a whole word where the word is all free or all taken.
    while (at < end) {
      const left = 32 - (at & 31);
      const word = words[at >>> 5] << (at & 31);
      // The shift brings in zeros from below: `left` says how many bits are real.
      const free = Math.min(Math.clz32(word), left);
      at += free;
      if (at - start >= count) return start;
      if (free === left) continue;
      const taken = Math.min(Math.clz32(~(word << free)), left - free);
      at += taken;
      start = at;
    }
    return -1;
  }

  private mark(start: number, count: number): void {
    const { words } = this;
    let word = start >>> 5;
    const last = (start + count - 1) >>> 5;
    const head = 0xffffffff >>> (start & 31);
    const tail = 0xffffffff << (31 - ((start + count - 1) & 31));
    if (word === last) {
      words[word] |= head & tail;
    } else {
      words[word] |= head;
      for (word++; word < last; word++) words[word] = 0xffffffff;
      words[last] |= tail;
    }
  }

  private check(start: number, count: number): void {
    if (!(start >= 0 && count >= 1 && start + count <= this.total))
      throw new RangeError(`granules ${start} to ${start + count} of ${this.total} do not exist`);
    for (let i = start; i < start + count; i++)
      if (((this.words[i >>> 5] << (i & 31)) & 0x80000000) === 0)
        throw new RangeError(`granule ${i} of the run at ${start} (${count}) is not taken: released twice`);
  }
}
