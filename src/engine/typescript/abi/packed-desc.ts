import {
  DESC_LEN,
  PACKED_DESC_F_AVAIL,
  PACKED_DESC_F_USED,
  PACKED_DESC_FLAGS,
  PACKED_DESC_ID,
} from '../../../../assembly/abi/layout.js';

/**
 * struct pvirtq_desc (2.8.13): addr (two 32-bit words), len (a word), id and flags (16 bits each, one word).
 * Written by both sides in turn, so trusted by neither.
 *
 * `flags` decides whose turn it is. Where it does, it is stored and loaded alone, as 16 bits through order.ts;
 * elsewhere id and flags are stored as one word.
 */

/** Word (32 bits) in which id and flags are, from the start of a descriptor. */
export const ID_AND_FLAGS = PACKED_DESC_ID >>> 2;
export const PACKED_LEN = DESC_LEN >>> 2;
/** The same for 16-bit words. */
export const PACKED_ID = PACKED_DESC_ID >>> 1;
export const PACKED_FLAGS = PACKED_DESC_FLAGS >>> 1;
/** From the start of the word that begins with id. */
export const FLAGS_SHIFT = (PACKED_DESC_FLAGS - PACKED_DESC_ID) << 3;

/** The two flags that say whose a descriptor is (2.8.1). */
export const AVAIL_USED = PACKED_DESC_F_AVAIL | PACKED_DESC_F_USED;

/** AVAIL and USED of a descriptor that was made available under this wrap counter. */
export const availableUnder = (wrap: number): number =>
  wrap === 0 ? PACKED_DESC_F_USED : PACKED_DESC_F_AVAIL;
/** AVAIL and USED of a descriptor that was used under this wrap counter. */
export const usedUnder = (wrap: number): number => (wrap === 0 ? 0 : AVAIL_USED);
