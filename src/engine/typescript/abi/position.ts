import type { Position } from '../../engine.js';

/**
 * Position in a packed ring: the slot, with the wrap counter in bit 15. So it stands in off_wrap (2.8.14) and
 * in a notification (2.9).
 */

const WRAP = 15;
const SLOT = 0x7fff;

export const positionOf = (slot: number, wrap: number): Position => slot | (wrap << WRAP);
export const slotOf = (position: Position): number => position & SLOT;
export const wrapOf = (position: Position): number => (position >>> WRAP) & 1;

/** The position `count` (at most `size`) slots behind. */
export function behind(position: Position, count: number, size: number): Position {
  const slot = slotOf(position) + count;
  return slot < size ? positionOf(slot, wrapOf(position)) : positionOf(slot - size, wrapOf(position) ^ 1);
}
