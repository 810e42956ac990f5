import { DESC_ADDR, DESC_BYTES, DESC_F_NEXT, DESC_FLAGS, DESC_LEN } from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_desc (2.7.5), seen through 32-bit words:
 *
 *     0  addr, low half
 *     1  addr, high half
 *     2  len
 *     3  flags (bits 0-15) and next (bits 16-31)
 *
 * Written by the driver, read by the device, trusted by neither: the device checks what it reads, and the
 * driver never reads a descriptor back. `flags` and `next` share a word, so one load gets a consistent pair.
 */

/** Words of a descriptor, and its binary logarithm. */
export const DESC_WORDS = DESC_BYTES >>> 2;
export const DESC_SHIFT = 2;

const ADDR_LOW = DESC_ADDR >>> 2;
const ADDR_HIGH = ADDR_LOW + 1;
const LEN = DESC_LEN >>> 2;
const FLAGS_NEXT = DESC_FLAGS >>> 2;

/** Word index of descriptor `index` of the table that starts at word `table`. */
export const desc = (table: number, index: number): number => table + (index << DESC_SHIFT);

export const descAddrLow = (u32: Uint32Array, d: number): number => u32[d + ADDR_LOW];
export const descAddrHigh = (u32: Uint32Array, d: number): number => u32[d + ADDR_HIGH];
export const descLen = (u32: Uint32Array, d: number): number => u32[d + LEN];
export const descFlagsNext = (u32: Uint32Array, d: number): number => u32[d + FLAGS_NEXT];

/** Halves of what `descFlagsNext` returned. */
export const flagsOf = (flagsNext: number): number => flagsNext & 0xffff;
export const nextOf = (flagsNext: number): number => flagsNext >>> 16;

/** `flags` with NEXT, and `next`, as one word. */
export const chained = (flags: number, next: number): number => flags | DESC_F_NEXT | (next << 16);

/** One 32-bit little-endian word at any byte address: for tables that are not aligned. */
export const unalignedWord = (u8: Uint8Array, address: number): number =>
  (u8[address] | (u8[address + 1] << 8) | (u8[address + 2] << 16) | (u8[address + 3] << 24)) >>> 0;
