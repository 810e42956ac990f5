import * as L from '../../../../assembly/abi/layout.js';

/**
 * struct virtq_avail (2.7.6): flags, idx, ring[size], used_event, all of 16 bits. Written by the driver, read
 * by the device, which trusts no word of it.
 *
 * The functions give the index of a word, for the area at byte `avail`.
 */
export const availFlags = (avail: number): number => (avail + L.AVAIL_FLAGS) >>> 1;
export const availIdx = (avail: number): number => (avail + L.AVAIL_IDX) >>> 1;
/** Of ring[0]. */
export const availRing = (avail: number): number => (avail + L.AVAIL_RING) >>> 1;
/** Only used with EVENT_IDX. */
export const usedEvent = (avail: number, size: number): number => availRing(avail) + size;

/** Bytes of the area (2.7): the event word is there whether negotiated or not. */
export const availBytes = (size: number): number => L.AVAIL_RING + 2 * size + 2;
