import { REGION_BYTES, REGION_GUEST, REGION_LENGTH, REGION_LOCAL } from './layout';
import { pieceSet } from './records';

/** Guest addresses [guest, guest + length) lie at `local`. Written by the host, sorted, without overlap. */
@unmanaged
export class Region {
  guest: u64;
  length: u64;
  local: u32;
  /** Keeps the records aligned. */
  reserved: u32;

  /** The piece of a segment that this region holds. */
  @inline
  piece(guest: u64, length: u32, pieces: usize, at: u32): void {
    pieceSet(pieces, at, <u32>(<u64>this.local + guest - this.guest), length);
  }
}

if (
  offsetof<Region>('guest') != REGION_GUEST ||
  offsetof<Region>('length') != REGION_LENGTH ||
  offsetof<Region>('local') != REGION_LOCAL ||
  offsetof<Region>() != REGION_BYTES
)
  ERROR('abi/region.ts and abi/layout.ts disagree');

/** The regions that a device may touch: an array of Region records in private memory. */
@unmanaged
export class RegionTable {
  regions: usize;
  count: u32;
  /** Region of the last hit, tried first: buffers mostly come from one region. */
  hit: u32;

  set(regions: usize, count: u32): void {
    this.regions = regions;
    this.count = count;
    this.hit = 0;
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
   * Index of the region that holds guest address `guest`, or -1. The difference wraps below `region.guest`
   * to a value above every length, because no region reaches past 2^64.
   */
  find(guest: u64): i32 {
    if (this.count == 0) return -1;
    const last = this.at(this.hit);
    if (guest - last.guest < last.length) return <i32>this.hit;
    for (let i: u32 = 0; i < this.count; i++) {
      const region = this.at(i);
      if (guest - region.guest < region.length) {
        this.hit = i;
        return <i32>i;
      }
    }
    return -1;
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
      const index = this.find(from);
      if (index < 0 || from < guest) return 0;
      const region = this.at(index);
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
    const index = this.find(guest);
    if (index < 0) return -1;
    const region = this.at(index);
    const offset = guest - region.guest;
    // find() has shown offset < region.length, so the difference does not wrap.
    if (<u64>length > region.length - offset) return -1;
    return <u64>region.local + offset;
  }
}

/**
 * True if [guest, guest + length) lies in the region of `regionLength` bytes at `regionGuest`. Below it the
 * difference wraps to above any length, because no region reaches past 2^64.
 */
// @ts-ignore: decorator
@inline
export function holds(regionGuest: u64, regionLength: u64, guest: u64, length: u32): bool {
  const offset = guest - regionGuest;
  return offset < regionLength && <u64>length <= regionLength - offset;
}
