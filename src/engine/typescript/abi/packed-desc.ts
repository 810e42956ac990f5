import * as L from '../../../../assembly/abi/layout.js';

/**
 * struct pvirtq_desc (2.8.13): addr (two 32-bit words, low half and high half), len, and id with flags above
 * it. Both sides write it in turn, so neither trusts it.
 *
 * AVAIL and USED in `flags` say whose turn it is. So in a shared memory flags are loaded alone, as 16 bits and
 * through order.ts, and where they expose a burst they are stored so; elsewhere id and flags are one word. A table of indirect descriptors
 * has the same shape, with nothing but WRITE in flags.
 *
 * First the words of 32 bits, then those of 16.
 */
export const ADDR_LOW = L.DESC_ADDR >>> 2;
export const ADDR_HIGH = ADDR_LOW + 1;
export const LEN = L.DESC_LEN >>> 2;
export const ID_AND_FLAGS = L.PACKED_DESC_ID >>> 2;
/** Where flags start in that word. */
export const FLAGS_SHIFT = (L.PACKED_DESC_FLAGS - L.PACKED_DESC_ID) << 3;

export const ID = L.PACKED_DESC_ID >>> 1;
export const FLAGS = L.PACKED_DESC_FLAGS >>> 1;

/** Words of a descriptor as a shift, bytes of it as a shift. */
export const SHIFT = 2;
export const BYTES_SHIFT = SHIFT + 2;

/** Halves of the word that is both. */
export const idOf = (word: number): number => word & 0xffff;
export const flagsOf = (word: number): number => word >>> FLAGS_SHIFT;

/** The two flags that say whose a descriptor is (2.8.1). */
export const AVAIL_USED = L.PACKED_DESC_F_AVAIL | L.PACKED_DESC_F_USED;

/** AVAIL and USED of a descriptor that was made available under this wrap counter. */
export const availableUnder = (wrap: number): number =>
  wrap === 0 ? L.PACKED_DESC_F_USED : L.PACKED_DESC_F_AVAIL;
/** The wrap counter under which those bits make a descriptor available. */
export const wrapUnder = (available: number): number => (available === L.PACKED_DESC_F_AVAIL ? 1 : 0);
/** AVAIL and USED of a descriptor that was used under this wrap counter. */
export const usedUnder = (wrap: number): number => (wrap === 0 ? 0 : AVAIL_USED);
