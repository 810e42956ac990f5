// A chain of descriptors as it is found in memory: what may be said about it before anybody believes it.

import * as L from '../../../assembly/abi/layout.js';
import { describeFault } from '../../errors.js';
import { descriptorAddress, descriptorLength, hex, type Reach } from './bytes.js';

/** One segment of a buffer. */
export interface SegmentView {
  /** As the driver wrote it: for a device a guest address. */
  address: string;
  length: number;
  /** `out`: device-readable, `in`: device-writable. */
  direction: 'out' | 'in';
}

/** The indirect table that a buffer goes through. */
export interface TableView {
  address: string;
  descriptors: number;
}

/** What was found of a chain. */
export interface ChainView {
  segments: SegmentView[];
  table?: TableView;
  /** Device-writable bytes of these segments. */
  writable: number;
  /** The first thing that is wrong; the segments before it are sound. */
  problem?: string;
}

/** Most descriptors that one inspection lists, whatever the ring says. */
const DESCRIPTORS_MAX = 65536;
/** Most buffers listed that the other side has handed over and this side has not taken. */
export const PENDING_MAX = 32;

const CHAIN_BYTES_MAX = 2 ** 32;

/** What bounds an inspection. */
export class Budget {
  private left = DESCRIPTORS_MAX;

  /** Counts a descriptor. @returns why it may not be listed, if it may not */
  spend(): string | undefined {
    return this.left-- > 0 ? undefined : `not listed: ${DESCRIPTORS_MAX} descriptors were listed before`;
  }
}

/** Text of the fault that an engine reports for the same offence. */
export const offence = (kind: number, a: number | bigint, b: number | bigint): string =>
  describeFault(kind, BigInt(a), BigInt(b)).reason;

/**
 * Collects the segments of a chain, in order, up to the first thing that is wrong. The checks are those of a
 * device, in the order of the engines; a driver inspects its own chains with them, too.
 */
export class Chain {
  readonly segments: SegmentView[] = [];
  table: TableView | undefined;
  problem: string | undefined;
  private writable = 0;
  private bytes = 0;

  /** @param head what faults name the chain by */
  constructor(
    readonly head: number,
    private readonly reach: Reach,
    private readonly budget: Budget,
  ) {
    reach.begin();
  }

  /** Notes what is wrong; the first note stays. @returns false */
  fail(problem: string): false {
    this.problem ??= problem;
    return false;
  }

  /** Adds the segment of a descriptor. @returns false if the chain ends here because something is wrong */
  add(table: DataView, index: number, write: boolean): boolean {
    const spent = this.budget.spend();
    if (spent !== undefined) return this.fail(spent);
    const address = descriptorAddress(table, index);
    const length = descriptorLength(table, index);
    if (!write && this.segments.at(-1)?.direction === 'in')
      return this.fail(offence(L.FAULT_SEGMENT_ORDER, address, length));
    if (!this.reach.covers(address, length))
      return this.fail(offence(L.FAULT_SEGMENT_RANGE, address, length));
    this.bytes += length;
    if (this.bytes > CHAIN_BYTES_MAX) return this.fail(offence(L.FAULT_CHAIN_BYTES, this.head, this.bytes));
    if (write) this.writable += length;
    this.segments.push({ address: hex(address), length, direction: write ? 'in' : 'out' });
    return true;
  }

  /** Enters the table that a descriptor refers to. @returns its bytes, or undefined if something is wrong */
  enter(descriptors: DataView, index: number): DataView | undefined {
    const address = descriptorAddress(descriptors, index);
    const length = descriptorLength(descriptors, index);
    this.table = { address: hex(address), descriptors: Math.floor(length / L.DESC_BYTES) };
    if (length === 0 || length % L.DESC_BYTES !== 0) {
      this.fail(offence(L.FAULT_TABLE_LENGTH, length, address));
      return undefined;
    }
    const table = this.reach.table(address, length);
    if (table === undefined) this.fail(offence(L.FAULT_TABLE_RANGE, address, length));
    return table;
  }

  get view(): ChainView {
    const { segments, table, writable, problem } = this;
    return {
      segments,
      ...(table !== undefined && { table }),
      // What the engines keep is 32 bits wide.
      writable: Math.min(writable, 2 ** 32 - 1),
      ...(problem !== undefined && { problem }),
    };
  }
}
