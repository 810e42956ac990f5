import * as L from '../../../../assembly/abi/layout.js';
import type { Position } from '../../engine.js';
import { needEvent } from './event.js';
import { slotOf, wrapOf } from './position.js';

/**
 * struct pvirtq_event_suppress (2.8.14): off_wrap, flags (16 bits each). Each side writes its own, word by
 * word, and loads the other's as a whole (a 32-bit word), so that the two halves belong together.
 */

export const eventOffWrap = (structure: number): number => (structure + L.EVENT_OFF_WRAP) >>> 1;
export const eventFlags = (structure: number): number => (structure + L.EVENT_FLAGS) >>> 1;
/** Index of the 32-bit word that is both. */
export const eventStructure = (structure: number): number => structure >>> 2;

/** Halves of that word. */
export const offWrapOf = (event: number): Position => event & 0xffff;
export const flagsOf = (event: number): number => (event >>> 16) & L.EVENT_FLAGS_MASK;

/**
 * Whether a side that wrote `event` wants to know of the last `count` slots, which end before `position`
 * (2.8.14). The reserved value of the flags asks for nothing less than ENABLE: one event too many is
 * harmless.
 */
export function wantsEvent(
  event: number,
  eventIdx: boolean,
  position: Position,
  count: number,
  size: number,
): boolean {
  const flags = flagsOf(event);
  if (flags !== L.RING_EVENT_FLAGS_DESC || !eventIdx) return flags !== L.RING_EVENT_FLAGS_DISABLE;
  const asked = offWrapOf(event);
  // On one scale: a slot of the other lap lies behind.
  const slot = wrapOf(asked) === wrapOf(position) ? slotOf(asked) : slotOf(asked) - size;
  return needEvent(slot, slotOf(position), count);
}
