import * as L from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_desc (2.7.5), seen through 32-bit words: addr (low half, high half), len, and flags with next
 * above it. `flags` and `next` share a word, so one load gets a pair that belongs together.
 *
 * Written by the driver, read by the device, trusted by neither: the device checks what it reads, and the
 * driver never reads a descriptor back. A segment record has the same shape, with the count of segments in
 * place of next.
 */
export const ADDR_LOW = L.DESC_ADDR >>> 2;
export const ADDR_HIGH = ADDR_LOW + 1;
export const LEN = L.DESC_LEN >>> 2;
export const FLAGS = L.DESC_FLAGS >>> 2;
/** Where next (or the count) starts in the word that begins with flags. */
export const NEXT_SHIFT = (L.DESC_NEXT - L.DESC_FLAGS) << 3;

/** Words of a descriptor, as a shift and as a number; bytes of it, as a shift. */
export const SHIFT = 2;
export const WORDS = 1 << SHIFT;
export const BYTES_SHIFT = SHIFT + 2;

/** One 32-bit little-endian word at any byte address: for tables that are not aligned. */
export const unalignedWord = (u8: Uint8Array, address: number): number =>
  (u8[address] | (u8[address + 1] << 8) | (u8[address + 2] << 16) | (u8[address + 3] << 24)) >>> 0;
