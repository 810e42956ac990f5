// A packed ring (virtio 1.4, 2.8) as it stands in memory: its event structures, its slots and its chains.

import * as L from '../../../assembly/abi/layout.js';
import { hex, type Reach } from './bytes.js';
import { type Budget, Chain, type ChainView, offence } from './chain.js';

/** A slot, and the wrap counter of the lap that is meant. */
export interface PackedPosition {
  slot: number;
  wrap: 0 | 1;
}

/** An event suppression structure. */
export interface EventView extends PackedPosition {
  flags: string;
}

export const PACKED_FLAGS = {
  [L.DESC_F_NEXT]: 'NEXT',
  [L.DESC_F_WRITE]: 'WRITE',
  [L.DESC_F_INDIRECT]: 'INDIRECT',
  [L.PACKED_DESC_F_AVAIL]: 'AVAIL',
  [L.PACKED_DESC_F_USED]: 'USED',
};

const EVENT_FLAGS = ['ENABLE', 'DISABLE', 'DESC', 'reserved (3)'];

/** Event flags by name; bits that are reserved as a number behind it. */
export function eventFlags(flags: number): string {
  const rest = flags & ~L.EVENT_FLAGS_MASK;
  return EVENT_FLAGS[flags & L.EVENT_FLAGS_MASK] + (rest === 0 ? '' : ` + ${hex(rest)}`);
}

export const packedPosition = (value: number): PackedPosition => ({
  slot: value & 0x7fff,
  wrap: value & 0x8000 ? 1 : 0,
});

export const eventView = (area: DataView): EventView => ({
  flags: eventFlags(area.getUint16(L.EVENT_FLAGS, true)),
  ...packedPosition(area.getUint16(L.EVENT_OFF_WRAP, true)),
});

/** `count` slots forward. @param count at most the size, forward or (negative) back */
export function moved({ slot, wrap }: PackedPosition, count: number, size: number): PackedPosition {
  const at = slot + count;
  if (at >= size) return { slot: at - size, wrap: wrap === 1 ? 0 : 1 };
  if (at < 0) return { slot: at + size, wrap: wrap === 1 ? 0 : 1 };
  return { slot: at, wrap };
}

const OWNER = L.PACKED_DESC_F_AVAIL | L.PACKED_DESC_F_USED;

/** Whether flags were written by a driver in the lap of a wrap counter. */
export const isAvailable = (flags: number, wrap: 0 | 1): boolean =>
  (flags & OWNER) === (wrap === 1 ? L.PACKED_DESC_F_AVAIL : L.PACKED_DESC_F_USED);
/** Whether flags were written by a device in the lap of a wrap counter. */
export const isUsed = (flags: number, wrap: 0 | 1): boolean => (flags & OWNER) === (wrap === 1 ? OWNER : 0);

export const packedFlags = (table: DataView, index: number): number =>
  table.getUint16(index * L.DESC_BYTES + L.PACKED_DESC_FLAGS, true);
export const packedId = (table: DataView, index: number): number =>
  table.getUint16(index * L.DESC_BYTES + L.PACKED_DESC_ID, true);

/** A chain in the ring, with the slots that it takes. */
export interface PackedChain {
  chain: ChainView;
  /** Of its last descriptor. Undefined if the chain is bad. */
  id?: number;
  slots: number[];
}

/**
 * Follows the chain that starts at a position that is available, as a device does.
 * @param indirect false: INDIRECT_DESC was not negotiated
 */
export function packedChain(
  ring: DataView,
  size: number,
  start: PackedPosition,
  indirect: boolean,
  reach: Reach,
  budget: Budget,
): PackedChain {
  const chain = new Chain(start.slot, reach, budget);
  const slots: number[] = [];
  const bad = (): PackedChain => ({ chain: chain.view, slots });
  let at = start;
  for (;;) {
    const { slot } = at;
    const flags = packedFlags(ring, slot);
    if (!isAvailable(flags, at.wrap)) {
      chain.fail(offence(L.FAULT_DESC_UNAVAILABLE, start.slot, slot));
      return bad();
    }
    if (flags & L.DESC_F_INDIRECT) {
      if (!indirect) chain.fail(offence(L.FAULT_INDIRECT_REFUSED, slot, flags));
      else if (slots.length > 0 || flags & L.DESC_F_NEXT)
        chain.fail(offence(L.FAULT_INDIRECT_NEXT, slot, flags));
      slots.push(slot);
      if (chain.problem !== undefined || !enterTable(chain, ring, slot, size)) return bad();
      break;
    }
    if (slots.length === size) {
      chain.fail(offence(L.FAULT_CHAIN_LONG, start.slot, size));
      return bad();
    }
    slots.push(slot);
    if (!chain.add(ring, slot, (flags & L.DESC_F_WRITE) !== 0)) return bad();
    if (!(flags & L.DESC_F_NEXT)) break;
    at = moved(at, 1, size);
  }
  return { chain: chain.view, id: packedId(ring, at.slot), slots };
}

/** Adds all descriptors of the table that a slot refers to. @returns false if something is wrong */
export function enterTable(chain: Chain, ring: DataView, slot: number, size: number): boolean {
  const table = chain.enter(ring, slot);
  return table !== undefined && addTable(chain, table, size);
}

/** Adds all descriptors of a table, in order. @returns false if something is wrong */
export function addTable(chain: Chain, table: DataView, size: number): boolean {
  for (let i = 0; i < table.byteLength / L.DESC_BYTES; i++) {
    if (i === size) return chain.fail(offence(L.FAULT_CHAIN_LONG, chain.head, size));
    if (!chain.add(table, i, (packedFlags(table, i) & L.DESC_F_WRITE) !== 0)) return false;
  }
  return true;
}
