import * as L from '../../../../assembly/abi/layout.js';

/**
 * The records that bursts are made of, seen through 32-bit words: word of each field, and the words of a
 * record as a shift. They are this side's own: the host wrote them or will read them, no peer does.
 * Segment records have the shape of a descriptor.
 */

export const SEGMENT_LOW = L.SEGMENT_ADDRESS >>> 2;
export const SEGMENT_HIGH = SEGMENT_LOW + 1;
export const SEGMENT_LENGTH = L.SEGMENT_LENGTH >>> 2;
/** Flags in the lower half, number of segments above SEGMENT_COUNT_SHIFT. */
export const SEGMENT_FLAGS = L.SEGMENT_FLAGS >>> 2;
export const SEGMENT_COUNT_SHIFT = (L.SEGMENT_COUNT - L.SEGMENT_FLAGS) << 3;
export const SEGMENT_SHIFT = 2;

export const COMPLETION_TOKEN = L.COMPLETION_TOKEN >>> 2;
export const COMPLETION_LENGTH = L.COMPLETION_LENGTH >>> 2;
export const COMPLETION_SHIFT = 1;

export const ELEMENT_ID = L.ELEMENT_ID >>> 2;
export const ELEMENT_FIRST = L.ELEMENT_FIRST >>> 2;
/** Number of `out` pieces in the lower half, of `in` pieces in the upper. */
export const ELEMENT_COUNTS = L.ELEMENT_OUT >>> 2;
export const ELEMENT_WRITTEN = L.ELEMENT_WRITTEN >>> 2;
export const ELEMENT_SHIFT = 2;

export const PIECE_ADDRESS = L.PIECE_ADDRESS >>> 2;
export const PIECE_LENGTH = L.PIECE_LENGTH >>> 2;
export const PIECE_SHIFT = 1;
