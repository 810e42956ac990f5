import * as L from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_used (2.7.8): flags and idx (16-bit words), ring[size] of {id, len} (32-bit words),
 * avail_event (16-bit word). Written by the device, read by the driver, which trusts no word of it.
 *
 * The functions give the index of a word, for the area at byte `used`.
 */
export const usedFlags = (used: number): number => (used + L.USED_FLAGS) >>> 1;
export const usedIdx = (used: number): number => (used + L.USED_IDX) >>> 1;
/** Of ring[0]; 32-bit words. */
export const usedRing = (used: number): number => (used + L.USED_RING) >>> 2;
/** Only used with EVENT_IDX. */
export const availEvent = (used: number, size: number): number =>
  (used + L.USED_RING + L.USED_ELEM_BYTES * size) >>> 1;

/** Words of an element of the ring, and how many an element has, as a shift. */
export const ELEM_ID = L.USED_ELEM_ID >>> 2;
export const ELEM_LEN = L.USED_ELEM_LEN >>> 2;
export const ELEM_SHIFT = 1;

/** Bytes of the area (2.7): the event word is there whether negotiated or not. */
export const usedBytes = (size: number): number => L.USED_RING + L.USED_ELEM_BYTES * size + 2;
