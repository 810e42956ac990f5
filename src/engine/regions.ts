import { show, VringError } from '../errors.js';

/** A range of guest memory: guest addresses [guest, guest + length) lie at `local` in the engine's memory. */
export interface Region {
  /** First guest address; up to 64 bits, so a bigint where a number would not be exact. */
  guest: number | bigint;
  /** Bytes. */
  length: number | bigint;
  /** Byte offset in the engine's memory. */
  local: number;
}

/** A region as the engines take it. */
export interface ExactRegion {
  readonly guest: bigint;
  readonly length: bigint;
  readonly local: number;
}

const U64 = 1n << 64n;

function exact(value: unknown, what: string): bigint {
  if (typeof value === 'bigint' && value >= 0n && value < U64) return value;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  throw new VringError(
    'EINVAL',
    `${what} must be an integer from 0 to 2^64-1 (a bigint above 2^53-1), got ${show(value)}`,
  );
}

/**
 * The regions of guest memory that a device may touch, checked and sorted by guest address. Regions that
 * adjoin in guest and in local memory are merged.
 */
export class Regions {
  readonly list: readonly ExactRegion[];

  /**
   * @param regions any order, no overlap in guest memory
   * @param limit byte length of the memory that `local` addresses
   * @throws VringError EINVAL for a region that is empty, wraps, overlaps another or leaves the memory
   */
  constructor(regions: Iterable<Region>, limit: number) {
    if (typeof regions !== 'object' || typeof regions?.[Symbol.iterator] !== 'function')
      throw new VringError(
        'EINVAL',
        `regions must be an array of {guest, length, local}, got ${show(regions)}`,
      );
    const sorted: ExactRegion[] = [];
    let index = 0;
    for (const region of regions) {
      if (typeof region !== 'object' || region === null)
        throw new VringError(
          'EINVAL',
          `regions[${index}] must be {guest, length, local}, got ${show(region)}`,
        );
      const guest = exact(region.guest, `regions[${index}].guest`);
      const length = exact(region.length, `regions[${index}].length`);
      const local = Number(exact(region.local, `regions[${index}].local`));
      if (length === 0n) throw new VringError('EINVAL', `regions[${index}] is empty`);
      if (guest + length > U64)
        throw new VringError('EINVAL', `regions[${index}] wraps: guest ${guest} + length ${length} > 2^64`);
      if (BigInt(local) + length > BigInt(limit))
        throw new VringError(
          'EINVAL',
          `regions[${index}] leaves the memory: local ${local} + length ${length} > ${limit} bytes`,
        );
      sorted.push({ guest, length, local });
      index++;
    }
    sorted.sort((a, b) => (a.guest < b.guest ? -1 : a.guest > b.guest ? 1 : 0));
    const merged: ExactRegion[] = [];
    for (const region of sorted) {
      const last = merged.at(-1);
      if (last && region.guest < last.guest + last.length)
        throw new VringError(
          'EINVAL',
          `regions overlap: guest ${last.guest} + ${last.length} reaches past ${region.guest}`,
        );
      if (
        last &&
        region.guest === last.guest + last.length &&
        BigInt(region.local) === BigInt(last.local) + last.length
      )
        merged[merged.length - 1] = { ...last, length: last.length + region.length };
      else merged.push(region);
    }
    this.list = merged;
  }

  /**
   * Local address of [guest, guest + length), which must lie in one region; undefined if it does not.
   */
  local(guest: number | bigint, length: number): number | undefined {
    const start = exact(guest, 'address');
    for (const region of this.list) {
      if (start < region.guest) break;
      const offset = start - region.guest;
      if (offset + BigInt(length) <= region.length) return region.local + Number(offset);
    }
    return undefined;
  }
}
