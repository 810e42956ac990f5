// Device side of a packed ring: what it remembers, and what the driver put into memory beside it.

import * as L from '../../../assembly/abi/layout.js';
import type { DeviceRingState } from '../../engine/engine.js';
import { distance } from '../state.js';
import type { Reach, RingBytes } from './bytes.js';
import { Budget, Chain, type ChainView, offence, PENDING_MAX } from './chain.js';
import {
  type EventView,
  enterTable,
  eventFlags,
  eventView,
  isAvailable,
  moved,
  type PackedPosition,
  packedChain,
  packedFlags,
  packedId,
  packedPosition,
} from './packed.js';
import { type ElementView, elementViews, type SideView } from './side.js';

export interface PackedElementView extends ElementView {
  /** Slots that it takes, and the first of them. Absent: it cannot be told any more where it was. */
  slots: number;
  slot?: number;
  /**
   * How many of its slots hold something else by now: buffers that were used before this one let the ring go
   * on over it. Segments that stood there are not listed.
   */
  overwritten?: number;
}

/** A buffer that the driver made available. */
export interface PackedPendingView extends ChainView {
  slot: number;
  slots: number;
  /** Absent if the chain is bad. */
  id?: number;
}

/** What a packed ring's device has beside what every inspection has. */
export interface PackedDeviceBody {
  ring: 'packed';
  side: 'device';
  /** Where the next buffer is popped, and the next used descriptor goes. */
  position: { avail: PackedPosition; used: PackedPosition };
  /** Event flags as the device wrote them last. */
  notifications: string;
  /** Slots pushed since the last shouldInterrupt; 65536 stands for more. */
  unsignalled: number;
  /** As it stands in memory; absent where the memory is not at hand, as `deviceEvent` and `pending`. */
  driverEvent?: EventView;
  deviceEvent?: EventView;
  /** In the order in which they were popped; those that are filled come last. */
  inFlight: PackedElementView[];
  /** Available and not popped: how many slots in a row, and the first buffers. */
  pending?: { slots: number; buffers: PackedPendingView[] };
}

export type PackedDeviceView = SideView & PackedDeviceBody;

export function packedDevice(
  state: DeviceRingState,
  { size, indirect }: { size: number; indirect: boolean },
  memory: { ring: RingBytes; reach: Reach } | undefined,
  problems: string[],
): PackedDeviceBody {
  const notifications = eventFlags(state.events);
  const events = memory && {
    driverEvent: eventView(memory.ring.driver),
    deviceEvent: eventView(memory.ring.device),
  };
  if (events && events.deviceEvent.flags !== notifications)
    problems.push(
      `the device's event flags are ${events.deviceEvent.flags} in memory, the device wrote ${notifications}`,
    );
  const budget = new Budget();
  const found = memory && locate(state, size, memory.ring.descriptor);
  const slots = new Map([...state.elements, ...state.fills].map((element) => [element.id, element.slots]));
  const views = elementViews(state, ({ id }) => {
    const place = found?.get(id);
    if (memory === undefined || place === undefined) return undefined;
    return {
      chain: intactChain(place, memory.ring.descriptor, size, memory.reach, budget),
      whole: place.overwritten === 0,
    };
  });
  return {
    ring: 'packed',
    side: 'device',
    position: { avail: packedPosition(state.avail), used: packedPosition(state.used) },
    notifications,
    unsignalled: state.unsignalled,
    ...events,
    inFlight: views.map((view) => {
      const place = found?.get(view.id);
      const count = slots.get(view.id) ?? 0;
      const overwritten = found && (place === undefined ? count : place.overwritten);
      return {
        ...view,
        slots: count,
        ...(place && { slot: place.head.slot }),
        ...(overwritten && { overwritten }),
      };
    }),
    ...(memory && {
      pending: pendingBuffers(state, size, indirect, memory.ring.descriptor, memory.reach, budget),
    }),
  };
}

interface Place {
  head: PackedPosition;
  /** Slots that still hold the chain. */
  intact: number[];
  overwritten: number;
}

/**
 * Finds the elements in flight in the ring: a device remembers their ids and slot counts, not their places.
 * Between the used and the avail position neither side has written since the driver made it available, so
 * whoever ends there ends at the last slot with its id. The rest of its chain may reach back to where used
 * descriptors, and then new buffers, have been written over it; the flags tell.
 */
function locate(
  { avail, used, elements, fills }: DeviceRingState,
  size: number,
  ring: DataView,
): Map<number, Place> {
  const missing = new Map([...elements, ...fills].map(({ id, slots }) => [id, slots]));
  const places = new Map<number, Place>();
  let left = distance('packed', size, used, avail);
  let at = moved(packedPosition(avail), -1, size);
  while (left > 0 && missing.size > 0) {
    const flags = packedFlags(ring, at.slot);
    const id = packedId(ring, at.slot);
    const count = flags & L.DESC_F_NEXT || !isAvailable(flags, at.wrap) ? undefined : missing.get(id);
    if (count !== undefined) {
      const head = moved(at, 1 - count, size);
      const intact: number[] = [];
      for (let i = 0; i < count; i++) {
        const { slot, wrap } = moved(head, i, size);
        if (isAvailable(packedFlags(ring, slot), wrap)) intact.push(slot);
      }
      places.set(id, { head, intact, overwritten: count - intact.length });
      missing.delete(id);
    }
    left -= count ?? 1;
    at = moved(at, -(count ?? 1), size);
  }
  return places;
}

/** What is left of a chain. It was checked when it was popped, so only its slots count, not their flags. */
function intactChain(
  { head, intact }: Place,
  ring: DataView,
  size: number,
  reach: Reach,
  budget: Budget,
): ChainView {
  const chain = new Chain(head.slot, reach, budget);
  for (const slot of intact) {
    const flags = packedFlags(ring, slot);
    const go =
      flags & L.DESC_F_INDIRECT
        ? enterTable(chain, ring, slot, size)
        : chain.add(ring, slot, (flags & L.DESC_F_WRITE) !== 0);
    if (!go) break;
  }
  return chain.view;
}

function pendingBuffers(
  { avail, used, elements, fills }: DeviceRingState,
  size: number,
  indirect: boolean,
  ring: DataView,
  reach: Reach,
  budget: Budget,
): { slots: number; buffers: PackedPendingView[] } {
  const taken = new Set([...elements, ...fills].map(({ id }) => id));
  // Also the slots of detached elements: the driver never gets them back.
  let busy = distance('packed', size, used, avail);
  const start = packedPosition(avail);
  let slots = 0;
  while (slots < size - busy) {
    const { slot, wrap } = moved(start, slots, size);
    if (!isAvailable(packedFlags(ring, slot), wrap)) break;
    slots++;
  }
  const buffers: PackedPendingView[] = [];
  for (let at = start; buffers.length < PENDING_MAX; ) {
    if (!isAvailable(packedFlags(ring, at.slot), at.wrap)) break;
    const { chain, id, slots: taking } = packedChain(ring, size, at, indirect, reach, budget);
    const buffer: PackedPendingView = {
      slot: at.slot,
      slots: taking.length,
      ...(id !== undefined && { id }),
      ...chain,
    };
    buffers.push(buffer);
    if (id !== undefined) {
      if (id >= size) buffer.problem = offence(L.FAULT_HEAD_RANGE, id, size);
      else if (taken.has(id)) buffer.problem = offence(L.FAULT_HEAD_IN_FLIGHT, id, taken.size);
      else if (taking.length > size - busy) buffer.problem = offence(L.FAULT_SLOTS, at.slot, busy);
      else taken.add(id);
    }
    // Behind a bad one nobody knows where the next begins.
    if (buffer.problem !== undefined) break;
    busy += taking.length;
    at = moved(at, taking.length, size);
  }
  return { slots, buffers };
}
