// What an inspection says of a side of a queue whatever the ring format.

import type { DeviceRingState, LocalAreas, RingFormat } from '../../engine/engine.js';
import type { Fault } from '../../errors.js';
import type { QueueStats } from '../../stats.js';

import { hex } from './bytes.js';
import type { ChainView, SegmentView, TableView } from './chain.js';

/** Head of every inspection. */
export interface SideView {
  side: 'driver' | 'device';
  ring: RingFormat;
  size: number;
  /** Names of the feature bits that this side of the ring uses. */
  features: string[];
  /** Where the ring lies in the engine's memory. */
  areas: { descriptor: string; driver: string; device: string };
  /** Why the queue is broken, or null. */
  fault: Fault | null;
  /** What is wrong with the ring as a whole. What is wrong with a buffer stands beside it. */
  problems: string[];
  stats: QueueStats;
}

/** A buffer that a driver made available and did not get back. */
export interface BufferView {
  /** Head descriptor (split) or buffer id (packed). */
  id: number;
  token: number;
  /** Device-writable bytes, as the driver remembers them. */
  writable: number;
  /** As they stand in memory; absent where the memory is not at hand. */
  segments?: SegmentView[];
  table?: TableView;
  problem?: string;
}

/** An element that a device popped and whose used entry the driver does not see yet. */
export interface ElementView {
  id: number;
  /** `filled`: has a used entry that waits for a flush. `done`: pushed, waits for those before it (in order). */
  state: 'popped' | 'filled' | 'done';
  /** Bytes written, of one that is filled or done. */
  written?: number;
  /** Used entries ahead, of one that is filled. */
  offset?: number;
  /** Device-writable bytes, as the device remembers them; those of its segments if it is filled. */
  writable?: number;
  segments?: SegmentView[];
  table?: TableView;
  problem?: string;
}

/** What both sides of a queue know of themselves. */
export interface Shape {
  ring: RingFormat;
  size: number;
  eventIdx: boolean;
  inOrder: boolean;
  /** Undefined: not known. */
  indirect?: boolean;
  areas: LocalAreas;
}

export function sideView(
  side: 'driver' | 'device',
  { ring, size, eventIdx, inOrder, indirect, areas }: Shape,
  fault: Fault | undefined,
  stats: QueueStats,
  problems: string[],
): SideView {
  const features = [
    ['INDIRECT_DESC', indirect === true],
    ['EVENT_IDX', eventIdx],
    ['RING_PACKED', ring === 'packed'],
    ['IN_ORDER', inOrder],
  ] as const;
  return {
    side,
    ring,
    size,
    features: features.filter(([, used]) => used).map(([name]) => name),
    areas: { descriptor: hex(areas.descriptor), driver: hex(areas.driver), device: hex(areas.device) },
    fault: fault ?? null,
    problems,
    stats,
  };
}

/**
 * The elements of a device, popped ones first.
 * @param find what memory says of one, and whether that is all of it; undefined if memory is not at hand
 */
export function elementViews(
  { elements, fills }: DeviceRingState,
  find: (element: { id: number; slots: number }) => { chain: ChainView; whole: boolean } | undefined,
): ElementView[] {
  const popped = elements.map((element): ElementView => {
    const { id, writable, written } = element;
    const found = find(element);
    const state = written < 0 ? 'popped' : 'done';
    const view = { id, state, ...(written >= 0 && { written }), ...found?.chain, writable } as const;
    if (!found?.whole || found.chain.problem !== undefined || found.chain.writable === writable) return view;
    const problem = `${found.chain.writable} bytes are writable in memory, ${writable} when the element was popped`;
    return { ...view, problem };
  });
  const filled = fills.map((fill): ElementView => {
    const { id, written, offset } = fill;
    return { id, state: 'filled', written, offset, ...find(fill)?.chain };
  });
  return [...popped, ...filled];
}
