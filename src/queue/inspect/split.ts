// A split ring (virtio 1.4, 2.7) as it stands in memory: its words and its chains.

import * as L from '../../../assembly/abi/layout.js';
import { flagNames, type Reach, type RingBytes } from './bytes.js';
import { type Budget, Chain, type ChainView, offence } from './chain.js';

/** Words of the driver area. */
export interface AvailView {
  flags: string[];
  idx: number;
  usedEvent: number;
}

/** Words of the device area. */
export interface UsedView {
  flags: string[];
  idx: number;
  availEvent: number;
}

/** An entry of the used ring. */
export interface UsedEntryView {
  /** Of the used ring. */
  slot: number;
  id: number;
  length: number;
  problem?: string;
}

export const SPLIT_FLAGS = {
  [L.DESC_F_NEXT]: 'NEXT',
  [L.DESC_F_WRITE]: 'WRITE',
  [L.DESC_F_INDIRECT]: 'INDIRECT',
};

export const availView = ({ driver }: RingBytes, size: number): AvailView => ({
  flags: flagNames(driver.getUint16(L.AVAIL_FLAGS, true), { [L.AVAIL_F_NO_INTERRUPT]: 'NO_INTERRUPT' }),
  idx: driver.getUint16(L.AVAIL_IDX, true),
  usedEvent: driver.getUint16(L.AVAIL_RING + 2 * size, true),
});

export const usedView = ({ device }: RingBytes, size: number): UsedView => ({
  flags: flagNames(device.getUint16(L.USED_FLAGS, true), { [L.USED_F_NO_NOTIFY]: 'NO_NOTIFY' }),
  idx: device.getUint16(L.USED_IDX, true),
  availEvent: device.getUint16(L.USED_RING + L.USED_ELEM_BYTES * size, true),
});

/** Head in a slot of the available ring. */
export const availEntry = ({ driver }: RingBytes, slot: number): number =>
  driver.getUint16(L.AVAIL_RING + 2 * slot, true);

export const usedEntry = ({ device }: RingBytes, slot: number): UsedEntryView => {
  const at = L.USED_RING + L.USED_ELEM_BYTES * slot;
  return {
    slot,
    id: device.getUint32(at + L.USED_ELEM_ID, true),
    length: device.getUint32(at + L.USED_ELEM_LEN, true),
  };
};

export const splitFlags = (table: DataView, index: number): number =>
  table.getUint16(index * L.DESC_BYTES + L.DESC_FLAGS, true);
export const splitNext = (table: DataView, index: number): number =>
  table.getUint16(index * L.DESC_BYTES + L.DESC_NEXT, true);

/**
 * Follows the chain of a head below the size, as a device does.
 * @param indirect false: INDIRECT_DESC was not negotiated
 */
export function splitChain(
  ring: RingBytes,
  size: number,
  head: number,
  indirect: boolean,
  reach: Reach,
  budget: Budget,
): ChainView {
  const chain = new Chain(head, reach, budget);
  let table = ring.descriptor;
  let entries = size;
  // How many descriptors may still come. It falls with each, so the loop ends: a table is entered once.
  let left = size;
  let limit = size;
  let index = head;
  for (;;) {
    const flags = splitFlags(table, index);
    if (flags & L.DESC_F_INDIRECT) {
      const inTable = table !== ring.descriptor;
      if (!indirect) chain.fail(offence(L.FAULT_INDIRECT_REFUSED, index, flags));
      else if (inTable) chain.fail(offence(L.FAULT_INDIRECT_NESTED, index, flags));
      else if (flags & L.DESC_F_NEXT) chain.fail(offence(L.FAULT_INDIRECT_NEXT, index, flags));
      if (chain.problem !== undefined) break;
      const entered = chain.enter(table, index);
      if (entered === undefined) break;
      if (left === 0) {
        chain.fail(offence(L.FAULT_CHAIN_LOOP, head, entries));
        break;
      }
      table = entered;
      entries = entered.byteLength / L.DESC_BYTES;
      limit = left = Math.min(entries, left);
      index = 0;
      continue;
    }
    if (left-- === 0) {
      chain.fail(
        limit === entries
          ? offence(L.FAULT_CHAIN_LOOP, head, entries)
          : offence(L.FAULT_CHAIN_LONG, head, size),
      );
      break;
    }
    if (!chain.add(table, index, (flags & L.DESC_F_WRITE) !== 0)) break;
    if (!(flags & L.DESC_F_NEXT)) break;
    index = splitNext(table, index);
    if (index >= entries) {
      chain.fail(offence(L.FAULT_NEXT_RANGE, index, entries));
      break;
    }
  }
  return chain.view;
}
