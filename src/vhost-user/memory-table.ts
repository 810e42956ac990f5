import type { Region } from '../engine/regions.js';
import { VringError } from '../errors.js';
import { MEMORY_SLOTS, REGION_BYTES } from './protocol.js';

/** A region as the front-end describes it. All 64 bits of each count. */
export interface RegionDescription {
  /** First guest address. */
  guest: bigint;
  /** Bytes. */
  size: bigint;
  /** First address in the front-end's own process, which is what ring addresses mean. */
  user: bigint;
  /** Where the region starts in its file. */
  offset: bigint;
}

/** A range of the engine's memory that shows a part of a file. */
export interface Mapped {
  readonly address: number;
  release(): void;
}

/** Lays `length` bytes from `offset` of a file into the engine's memory. */
export type MapFile = (fd: number, options: { length: number; offset: number }) => Mapped;

const U64 = 1n << 64n;
const hex = (n: bigint) => `0x${n.toString(16)}`;
const LENGTH_MAX = 1n << 32n;

export function readRegion(view: DataView, at: number): RegionDescription {
  return {
    guest: view.getBigUint64(at, true),
    size: view.getBigUint64(at + 8, true),
    user: view.getBigUint64(at + 16, true),
    offset: view.getBigUint64(at + 24, true),
  };
}

export function writeRegion(view: DataView, at: number, region: RegionDescription): void {
  view.setBigUint64(at, region.guest, true);
  view.setBigUint64(at + 8, region.size, true);
  view.setBigUint64(at + 16, region.user, true);
  view.setBigUint64(at + 24, region.offset, true);
}

/** Reads `count` regions from a payload that was checked to have them. */
export const readRegions = (view: DataView, at: number, count: number): RegionDescription[] =>
  Array.from({ length: count }, (_, i) => readRegion(view, at + i * REGION_BYTES));

const overlap = (a: bigint, aSize: bigint, b: bigint, bSize: bigint): boolean =>
  a < b + bSize && b < a + aSize;

/** The memory that a front-end shares, mapped. */
export class MemoryTable {
  private readonly slots: { region: RegionDescription; mapped: Mapped }[] = [];

  constructor(private readonly map: MapFile) {}

  get count(): number {
    return this.slots.length;
  }

  /** The regions for a device queue. */
  get regions(): Region[] {
    return this.slots.map(({ region, mapped }) => ({
      guest: region.guest,
      length: region.size,
      local: mapped.address,
    }));
  }

  /**
   * Maps a region. The descriptor may be closed afterwards.
   * @throws VringError EPROTO for a region that is empty, wraps or overlaps another; EFAULT, ENOMEM, EINVAL
   *   where its file cannot be mapped
   */
  add(region: RegionDescription, fd: number): void {
    const { guest, size, user, offset } = region;
    const text = `region of ${size} bytes at guest ${hex(guest)}, user ${hex(user)}, offset ${hex(offset)}`;
    if (this.slots.length === MEMORY_SLOTS)
      throw new VringError('EPROTO', `${text}: there are ${MEMORY_SLOTS} regions already`);
    if (size === 0n || guest + size > U64 || user + size > U64)
      throw new VringError('EPROTO', `${text} is empty or wraps`);
    if (size > LENGTH_MAX)
      throw new VringError('ENOMEM', `${text} does not fit a memory of 32-bit addresses: use less memory`);
    if (offset > BigInt(Number.MAX_SAFE_INTEGER))
      throw new VringError('EPROTO', `${text} is outside any file`);
    for (const { region: other } of this.slots)
      if (overlap(guest, size, other.guest, other.size) || overlap(user, size, other.user, other.size))
        throw new VringError(
          'EPROTO',
          `${text} overlaps that of ${other.size} bytes at guest ${hex(other.guest)}, user ${hex(other.user)}`,
        );
    const mapped = this.map(fd, { length: Number(size), offset: Number(offset) });
    this.slots.push({ region, mapped });
  }

  /**
   * Takes a region away; no queue may use it any more.
   * @throws VringError EPROTO if there is none with these addresses and this size
   */
  remove({ guest, size, user }: RegionDescription): void {
    const index = this.find(guest, size, user);
    this.slots[index].mapped.release();
    this.slots.splice(index, 1);
  }

  /** The regions without this one. @throws VringError EPROTO as `remove` */
  without({ guest, size, user }: RegionDescription): Region[] {
    const index = this.find(guest, size, user);
    return this.regions.filter((_, i) => i !== index);
  }

  private find(guest: bigint, size: bigint, user: bigint): number {
    const index = this.slots.findIndex(
      ({ region }) => region.guest === guest && region.size === size && region.user === user,
    );
    if (index < 0)
      throw new VringError(
        'EPROTO',
        `there is no region of ${size} bytes at guest ${hex(guest)}, user ${hex(user)}`,
      );
    return index;
  }

  /** Guest address of an address in the front-end's process. @throws VringError EFAULT */
  guestOf(user: bigint, what: string): bigint {
    for (const { region } of this.slots)
      if (user >= region.user && user < region.user + region.size) return user - region.user + region.guest;
    throw new VringError('EFAULT', `${what} at ${hex(user)} is in none of the ${this.slots.length} regions`);
  }

  /** Unmaps everything; no queue may use it any more. */
  clear(): void {
    for (const { mapped } of this.slots.splice(0)) mapped.release();
  }
}
