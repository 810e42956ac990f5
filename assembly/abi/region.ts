import { REGION_BYTES, REGION_GUEST, REGION_INDEX, REGION_LENGTH, REGION_LOCAL } from './layout';
import { pieceSet } from './records';

/** Guest addresses [guest, guest + length) lie at `local`. Written by the host, sorted, without overlap. */
@unmanaged
export class Region {
  guest: u64;
  length: u64;
  local: u32;
  /** Its place in the table; set in what TranslationCache keeps only. */
  index: u32;

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
  offsetof<Region>('index') != REGION_INDEX ||
  offsetof<Region>() != REGION_BYTES
)
  ERROR('abi/region.ts and abi/layout.ts disagree');

/**
 * True if [guest, guest + length) lies in the region of `regionLength` bytes at `regionGuest` and is not empty. Below
 * the region the difference wraps to above any length, because no region reaches past 2^64; so does that of an empty
 * segment.
 */
// @ts-ignore: decorator
@inline
export function holds(regionGuest: u64, regionLength: u64, guest: u64, length: u32): bool {
  const offset = guest - regionGuest;
  return offset < regionLength && <u64>length - 1 < regionLength - offset;
}
