// The bytes that an inspection looks at: the three areas of a ring, and tables wherever a descriptor says.
// Each word is read once, and nothing is read that a `DataView` made here does not cover.

import * as L from '../../../assembly/abi/layout.js';
import type { LocalAreas, RingFormat } from '../../engine/engine.js';
import { areaLayout } from '../queue.js';
import type { Translation } from './translation.js';

/** The three areas of a ring, each of exactly the bytes that its size asks for. */
export interface RingBytes {
  descriptor: DataView;
  driver: DataView;
  device: DataView;
}

/** What lies outside the areas, as the one who inspects may see it. */
export interface Reach {
  /** A new chain begins. */
  begin(): void;
  /** Whether a buffer may lie there. */
  covers(address: bigint, length: number): boolean;
  /** An indirect table, or undefined if no such range is within reach. */
  table(address: bigint, length: number): DataView | undefined;
}

/** The areas at local addresses that have been checked. */
export function ringBytes(
  buffer: ArrayBufferLike,
  areas: LocalAreas,
  ring: RingFormat,
  size: number,
): RingBytes {
  const layout = areaLayout(ring, size);
  const view = (area: keyof LocalAreas) => new DataView(buffer, areas[area], layout[area].bytes);
  return { descriptor: view('descriptor'), driver: view('driver'), device: view('device') };
}

/** What a driver reaches: its own tables. Its buffers may lie anywhere, as long as the device finds them. */
export function driverReach(buffer: ArrayBufferLike, tables: { address: number; length: number }): Reach {
  const start = BigInt(tables.address);
  const end = start + BigInt(Math.min(tables.length, Math.max(0, buffer.byteLength - tables.address)));
  return {
    begin: () => {},
    covers: () => true,
    table: (address, length) =>
      address >= start && address + BigInt(length) <= end
        ? new DataView(buffer, Number(address), length)
        : undefined,
  };
}

/** What a device reaches: the regions. */
export function deviceReach(buffer: ArrayBufferLike, translation: Translation): Reach {
  return {
    begin: () => translation.begin(),
    covers: (address, length) => covers(translation, address, BigInt(length)),
    table(address, length) {
      const region = translation.find(address);
      if (region === undefined || address + BigInt(length) > region.guest + region.length) return undefined;
      const local = region.local + Number(address - region.guest);
      if (local + length > buffer.byteLength) return undefined;
      return new DataView(buffer, local, length);
    },
  };
}

/** Whether a range lies in regions, which may adjoin. A range without a byte lies anywhere. */
function covers(translation: Translation, address: bigint, length: bigint): boolean {
  const end = address + length;
  // Ends: each turn goes on behind the region that was found. No region reaches past 2^64.
  for (let at = address; at < end; ) {
    const region = translation.find(at);
    if (region === undefined) return false;
    at = region.guest + region.length;
  }
  return true;
}

/** `addr` and `len`, which both ring formats have in the same place. */
export const descriptorAddress = (table: DataView, index: number): bigint =>
  table.getBigUint64(index * L.DESC_BYTES + L.DESC_ADDR, true);
export const descriptorLength = (table: DataView, index: number): number =>
  table.getUint32(index * L.DESC_BYTES + L.DESC_LEN, true);

export const hex = (value: number | bigint): string => `0x${value.toString(16)}`;

/** Names of the bits that are set; those without one as a number. */
export function flagNames(flags: number, names: Readonly<Record<number, string>>): string[] {
  const found: string[] = [];
  let rest = flags;
  for (const [bit, name] of Object.entries(names)) {
    if ((rest & Number(bit)) === 0) continue;
    found.push(name);
    rest &= ~Number(bit);
  }
  return rest === 0 ? found : [...found, hex(rest)];
}
