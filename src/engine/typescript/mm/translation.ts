import { TRANSLATION_WINDOWS } from '../../../../assembly/abi/layout.js';
import type { Regions } from '../../regions.js';
import {
  FIRST_HIGH,
  FIRST_LOW,
  holds,
  LAST_HIGH,
  LAST_LOW,
  LOCAL,
  REGION_WORDS,
  WindowCache,
} from './window-cache.js';

/** Words of `Translation.window`. */
export const WINDOW_HIGH = 0;
export const WINDOW_LOW = 1;
export const WINDOW_LENGTH = 2;
export const WINDOW_LOCAL = 3;

/** Words of `Translation.at`. */
export const AT_LOW = 0;
export const AT_HIGH = 1;
export const AT_LENGTH = 2;
export const AT_LOCAL = 3;
export const AT_FIT = 4;

/**
 * Guest addresses, 64 bits wide, to local ones. Works on 32-bit halves: exact for every address, and
 * neither a bigint nor a double on the way. Questions and answers go through `at`, because a number above
 * 2^31 that crosses a call would become an object on the heap.
 */
export class Translation {
  /** The question (address, length) and the answer. See `find`. */
  readonly at = new Uint32Array(5);

  /**
   * The part of the region hit last that has the high half in common with the address: high half, low half
   * of the first address, length (0: none), local address of the first byte. A caller can look here first:
   * `offset = (low - WINDOW_LOW) >>> 0` is inside if the high halves are equal and offset < WINDOW_LENGTH.
   * That is the whole test, because no window crosses a multiple of 2^32: an address below it makes an
   * offset of at least 2^32 - WINDOW_LOW, which is at least WINDOW_LENGTH.
   */
  readonly window = new Uint32Array(4);

  /** Regions that were found for the chain, or the query, under way. */
  readonly cache = new WindowCache();

  private table!: Uint32Array;
  private count!: number;

  constructor(regions: Regions) {
    this.set(regions);
  }

  set(regions: Regions): void {
    const { list } = regions;
    const table = new Uint32Array(list.length * REGION_WORDS);
    let r = 0;
    for (const { guest, length, local } of list) {
      const last = guest + length - 1n;
      table[r + FIRST_LOW] = Number(guest & 0xffffffffn);
      table[r + FIRST_HIGH] = Number(guest >> 32n);
      table[r + LAST_LOW] = Number(last & 0xffffffffn);
      table[r + LAST_HIGH] = Number(last >> 32n);
      table[r + LOCAL] = local;
      r += REGION_WORDS;
    }
    this.table = table;
    this.count = list.length;
    this.window.fill(0);
    this.cache.clear();
  }

  /**
   * Looks up the address in `at` (AT_LOW, AT_HIGH) with a length of at least 1 (AT_LENGTH). If a region has
   * it: true, its local address in AT_LOCAL, how many of the AT_LENGTH bytes lie in that region in AT_FIT,
   * and the window moves there.
   */
  find(): boolean {
    const { at, table, window } = this;
    const low = at[AT_LOW];
    const high = at[AT_HIGH];
    const r = this.region();
    if (r < 0) return false;
    const firstLow = table[r + FIRST_LOW];
    const firstHigh = table[r + FIRST_HIGH];
    const lastLow = table[r + LAST_LOW];
    const lastHigh = table[r + LAST_HIGH];

    // Differences modulo 2^32 are the real ones: a region lies in a 32-bit local memory, so it has at most
    // 2^32 bytes, and both differences are between addresses of one region.
    at[AT_LOCAL] = table[r + LOCAL] + (low - firstLow);
    const behind = (lastLow - low) >>> 0; // bytes of the region behind the addressed one
    const more = (at[AT_LENGTH] - 1) >>> 0; // bytes of the question behind the addressed one
    at[AT_FIT] = Math.min(more, behind) + 1;

    const windowLow = firstHigh === high ? firstLow : 0;
    const windowLast = lastHigh === high ? lastLow : 0xffffffff;
    const length = windowLast - windowLow; // one byte short of the truth where that would be 2^32
    window[WINDOW_HIGH] = high;
    window[WINDOW_LOW] = windowLow;
    window[WINDOW_LENGTH] = length < 0xffffffff ? length + 1 : length;
    window[WINDOW_LOCAL] = table[r + LOCAL] + (windowLow - firstLow);
    return true;
  }

  /** Word in the table of the region that holds the address in `at`, or -1. */
  private region(): number {
    const { at, table, cache, count } = this;
    // So few are searched as fast as the cache.
    const cached = count > TRANSLATION_WINDOWS;
    if (cached) {
      const known = cache.find(at);
      if (known >= 0) return known;
    }
    const low = at[AT_LOW];
    const high = at[AT_HIGH];
    // Binary search for the last region that starts at or below the address; they are sorted and disjoint.
    let below = 0;
    let above = count;
    while (below < above) {
      const middle = (below + above) >>> 1;
      const r = middle * REGION_WORDS;
      const firstHigh = table[r + FIRST_HIGH];
      if (firstHigh < high || (firstHigh === high && table[r + FIRST_LOW] <= low)) below = middle + 1;
      else above = middle;
    }
    const r = (below - 1) * REGION_WORDS;
    if (below === 0 || !holds(table, r, at)) return -1;
    if (cached) cache.add(table, r);
    return r;
  }

  /** Whether the range of the question ends past 2^64. */
  wraps(): boolean {
    const { at } = this;
    return at[AT_HIGH] === 0xffffffff && at[AT_LOW] + at[AT_LENGTH] > 0x100000000;
  }

  /** Moves a question that does not wrap on behind the AT_FIT bytes of its answer. False if that was all. */
  advance(): boolean {
    const { at } = this;
    const fit = at[AT_FIT];
    at[AT_LENGTH] -= fit;
    at[AT_LOW] += fit;
    if (at[AT_LOW] < fit) at[AT_HIGH] += 1; // a carry
    return at[AT_LENGTH] !== 0;
  }
}
