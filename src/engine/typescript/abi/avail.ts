import { AVAIL_FLAGS, AVAIL_IDX, AVAIL_RING } from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_avail (2.7.6), seen through 16-bit words: flags, idx, ring[size], used_event.
 * Written by the driver, read by the device, which trusts no word of it.
 */

export const availFlags = (avail: number): number => (avail + AVAIL_FLAGS) >>> 1;
export const availIdx = (avail: number): number => (avail + AVAIL_IDX) >>> 1;
/** Word index of ring[0]. */
export const availRing = (avail: number): number => (avail + AVAIL_RING) >>> 1;
/** Only used with EVENT_IDX. */
export const usedEvent = (avail: number, size: number): number => availRing(avail) + size;

/** Bytes of the area (2.7): the event word is there whether negotiated or not. */
export const availBytes = (size: number): number => 6 + 2 * size;
