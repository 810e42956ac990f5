// A packed ring as bytes alone: what can be told without either side's memory.

import * as L from '../../../assembly/abi/layout.js';
import { descriptorAddress, descriptorLength, flagNames, hex, type Reach, type RingBytes } from './bytes.js';
import { Budget, type ChainView, offence } from './chain.js';
import {
  type EventView,
  eventView,
  isAvailable,
  moved,
  PACKED_FLAGS,
  type PackedChain,
  type PackedPosition,
  packedChain,
  packedFlags,
  packedId,
} from './packed.js';

export interface PackedDescriptorView {
  slot: number;
  /** By the flags AVAIL and USED; `unused` if all of it is 0. */
  state: 'available' | 'used' | 'unused';
  /** Wrap counter of the side that wrote it. */
  wrap: 0 | 1;
  address: string;
  length: number;
  id: number;
  flags: string[];
}

/** Available slots that belong together. */
export interface PackedAvailableView extends ChainView {
  slot: number;
  slots: number;
  /** Absent if the chain is bad or written over. */
  id?: number;
  /** It goes on to slots that are used: so it is most likely used, too. */
  overwritten?: true;
}

export interface PackedDumpView {
  ring: 'packed';
  size: number;
  problems: string[];
  driverEvent: EventView;
  deviceEvent: EventView;
  /**
   * Chains of slots that are available, by their first slot. Some may be used already, for a device does not
   * write to all slots of a buffer that it uses: the ring alone does not tell.
   */
  available: PackedAvailableView[];
  descriptors: PackedDescriptorView[];
}

export function packedDump(ring: RingBytes, size: number, reach: Reach): PackedDumpView {
  const table = ring.descriptor;
  const budget = new Budget();
  const available: PackedAvailableView[] = [];
  const descriptors: PackedDescriptorView[] = [];
  for (let slot = 0; slot < size; slot++) {
    const descriptor = descriptorView(table, slot);
    descriptors.push(descriptor);
    if (descriptor.state !== 'available' || continues(table, size, descriptor)) continue;
    available.push(availableView(packedChain(table, size, descriptor, true, reach, budget), slot, size));
  }
  return {
    ring: 'packed',
    size,
    problems: [],
    driverEvent: eventView(ring.driver),
    deviceEvent: eventView(ring.device),
    available,
    descriptors,
  };
}

function availableView({ chain, id, slots }: PackedChain, slot: number, size: number): PackedAvailableView {
  const view: PackedAvailableView = { slot, slots: slots.length, ...(id !== undefined && { id }), ...chain };
  if (id !== undefined && id >= size) view.problem = offence(L.FAULT_HEAD_RANGE, id, size);
  // Nothing wrong: without the positions this is what a buffer that was used out of order looks like.
  if (view.problem === offence(L.FAULT_DESC_UNAVAILABLE, slot, (slot + slots.length) % size)) {
    delete view.problem;
    view.overwritten = true;
  }
  return view;
}

function descriptorView(table: DataView, slot: number): PackedDescriptorView {
  const flags = packedFlags(table, slot);
  const address = descriptorAddress(table, slot);
  const length = descriptorLength(table, slot);
  const id = packedId(table, slot);
  const wrap = flags & L.PACKED_DESC_F_AVAIL ? 1 : 0;
  const unused = address === 0n && length === 0 && id === 0 && flags === 0;
  const state = isAvailable(flags, wrap) ? 'available' : unused ? 'unused' : 'used';
  return { slot, state, wrap, address: hex(address), length, id, flags: flagNames(flags, PACKED_FLAGS) };
}

/** Whether a slot is reached from the one before it. */
function continues(table: DataView, size: number, at: PackedPosition): boolean {
  const { slot, wrap } = moved({ slot: at.slot, wrap: at.wrap }, -1, size);
  const flags = packedFlags(table, slot);
  return isAvailable(flags, wrap) && (flags & L.DESC_F_NEXT) !== 0;
}
