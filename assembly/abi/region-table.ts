import { REGION_BYTES, TRANSLATION_WINDOWS } from './layout';
import { pieceSet } from './records';
import { Region } from './region';
import { TranslationCache } from './translation';

/** The regions that a device may touch: an array of Region records in private memory. */
@unmanaged
export class RegionTable {
  regions: usize;
  count: u32;
  /** Region of the last hit, tried first: buffers mostly come from one region. */
  hit: u32;
  cache: TranslationCache;

  set(regions: usize, count: u32): void {
    this.regions = regions;
    this.count = count;
    this.hit = 0;
    this.cache.clear();
  }

  @inline
  at(index: u32): Region {
    assert(index < this.count);
    return changetype<Region>(this.regions + <usize>index * REGION_BYTES);
  }

  /** Region of the last hit. There is room for one record even if there are no regions; it is empty then. */
  @inline
  recent(): Region {
    return changetype<Region>(this.regions + <usize>this.hit * REGION_BYTES);
  }

  /**
   * The region that holds guest address `guest`, or null. The difference wraps below `region.guest` to a value
   * above every length, because no region reaches past 2^64.
   */
  private find(guest: u64): Region | null {
    if (this.count == 0) return null;
    const last = this.at(this.hit);
    if (guest - last.guest < last.length) return last;
    return this.search(guest);
  }

  private search(guest: u64): Region | null {
    const count = this.count;
    // So few are searched as fast as the cache.
    const cached = count > <u32>TRANSLATION_WINDOWS;
    if (cached) {
      const window = this.cache.find(guest);
      if (window) {
        this.hit = window.index;
        return window;
      }
    }
    for (let i: u32 = 0; i < count; i++) {
      const region = this.at(i);
      if (guest - region.guest < region.length) {
        this.hit = i;
        if (cached) this.cache.add(region, i);
        return region;
      }
    }
    return null;
  }

  /**
   * Writes the pieces that a segment lies in from index `at` on, as far as `capacity` goes. A segment that
   * leaves the region it starts in goes on in the region that adjoins in guest memory. A segment of length 0
   * gives one piece wherever it points.
   * @returns how many pieces, or 0 if some byte lies in no region
   */
  pieces(guest: u64, length: u32, pieces: usize, at: u32, capacity: u32): u32 {
    if (length == 0) {
      if (at < capacity) pieceSet(pieces, at, 0, 0);
      return 1;
    }
    let from = guest;
    let left = length;
    let piece = at;
    // Each round moves to another, higher region: at most as many rounds as regions. An address that wraps
    // finds none, because region 0 would have to be higher.
    while (left > 0) {
      const region = this.find(from);
      if (!region || from < guest) return 0;
      const here = <u32>min<u64>(left, region.length - (from - region.guest));
      if (piece < capacity) region.piece(from, here, pieces, piece);
      piece++;
      from += here;
      left -= here;
    }
    return piece - at;
  }

  /** Local address of [guest, guest + length) if it lies in one region, or 0 - 1. `length` is not 0. */
  whole(guest: u64, length: u32): u64 {
    const region = this.find(guest);
    if (!region) return -1;
    const offset = guest - region.guest;
    // find() has shown offset < region.length, so the difference does not wrap.
    if (<u64>length > region.length - offset) return -1;
    return <u64>region.local + offset;
  }
}
