import { USED_ELEM_BYTES, USED_FLAGS, USED_IDX, USED_RING } from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_used (2.7.8): flags and idx (16-bit words), ring[size] of {id, len} (32-bit words),
 * avail_event (16-bit word). Written by the device, read by the driver, which trusts no word of it.
 */

export const usedFlags = (used: number): number => (used + USED_FLAGS) >>> 1;
export const usedIdx = (used: number): number => (used + USED_IDX) >>> 1;
/** Word index of ring[0]; an element is an id word and a len word. */
export const usedRing = (used: number): number => (used + USED_RING) >>> 2;
/** Only used with EVENT_IDX. */
export const availEvent = (used: number, size: number): number =>
  (used + USED_RING + USED_ELEM_BYTES * size) >>> 1;

/** Word index of the element in `slot` of the ring whose first element is at word `ring`. */
export const usedElem = (ring: number, slot: number): number => ring + (slot << 1);

/** Bytes of the area (2.7): the event word is there whether negotiated or not. */
export const usedBytes = (size: number): number => 6 + USED_ELEM_BYTES * size;
