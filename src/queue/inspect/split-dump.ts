// A split ring as bytes alone: what can be told without either side's memory.

import * as L from '../../../assembly/abi/layout.js';
import { distance } from '../state.js';
import { descriptorAddress, descriptorLength, flagNames, hex, type Reach, type RingBytes } from './bytes.js';
import { Budget, type ChainView, offence } from './chain.js';
import {
  type AvailView,
  availEntry,
  availView,
  SPLIT_FLAGS,
  splitChain,
  splitFlags,
  splitNext,
  type UsedView,
  usedEntry,
  usedView,
} from './split.js';

export interface SplitDescriptorView {
  index: number;
  address: string;
  length: number;
  flags: string[];
  next: number;
}

/** A buffer that the ring says is with the device. */
export interface SplitOutstandingView extends ChainView {
  /** Of the available ring. */
  slot: number;
  id: number;
}

export interface SplitDumpView {
  ring: 'split';
  size: number;
  problems: string[];
  /** `ring`: heads by slot. */
  avail: AvailView & { ring: number[] };
  used: UsedView & { ring: { id: number; length: number }[] };
  /**
   * Made available and not used, oldest first. `exact` is false where the ring alone does not tell which ones:
   * where it has turned and buffers are used out of order. Then all that are possible are listed, unless they
   * have been with the device for more than a turn.
   */
  outstanding: { count: number; exact: boolean; buffers: SplitOutstandingView[] };
  descriptors: SplitDescriptorView[];
}

export function splitDump(ring: RingBytes, size: number, reach: Reach): SplitDumpView {
  const problems: string[] = [];
  const avail = availView(ring, size);
  const used = usedView(ring, size);
  const slots = Array.from({ length: size }, (_, slot) => slot);
  const heads = slots.map((slot) => availEntry(ring, slot));
  const entries = slots.map((slot) => usedEntry(ring, slot)).map(({ id, length }) => ({ id, length }));
  const count = distance('split', size, used.idx, avail.idx);
  if (count > size)
    problems.push(`avail.idx ${avail.idx} is more than the queue size ahead of used.idx ${used.idx}`);
  const sure = count === 0 || count > size ? [] : ofYoungRing(heads, entries, avail.idx, used.idx);
  const open = sure ?? possible(heads, entries, avail.idx, used.idx);
  const budget = new Budget();
  return {
    ring: 'split',
    size,
    problems,
    avail: { ...avail, ring: heads },
    used: { ...used, ring: entries },
    outstanding: {
      count,
      exact: open.length === count,
      buffers: open.map((slot) => {
        const id = heads[slot];
        return id < size
          ? { slot, id, ...splitChain(ring, size, id, true, reach, budget) }
          : { slot, id, segments: [], writable: 0, problem: offence(L.FAULT_HEAD_RANGE, id, size) };
      }),
    },
    descriptors: slots.map((index) => ({
      index,
      address: hex(descriptorAddress(ring.descriptor, index)),
      length: descriptorLength(ring.descriptor, index),
      flags: flagNames(splitFlags(ring.descriptor, index), SPLIT_FLAGS),
      next: splitNext(ring.descriptor, index),
    })),
  };
}

type Entries = { id: number; length: number }[];

/**
 * Of a ring that has not turned yet: the slots of the available ring whose heads were made available more often
 * than used. Undefined if it has turned, as far as one can see.
 */
function ofYoungRing(
  heads: number[],
  entries: Entries,
  availIdx: number,
  usedIdx: number,
): number[] | undefined {
  if (usedIdx > availIdx || availIdx > heads.length) return undefined;
  if (heads.slice(availIdx).some((head) => head !== 0)) return undefined;
  if (entries.slice(usedIdx).some(({ id, length }) => id !== 0 || length !== 0)) return undefined;
  const open = new Map<number, number[]>();
  heads.slice(0, availIdx).forEach((head, slot) => {
    open.set(head, [...(open.get(head) ?? []), slot]);
  });
  for (const { id } of entries.slice(0, usedIdx)) if (open.get(id)?.shift() === undefined) return undefined;
  const slots = [...open.values()].flat().sort((a, b) => a - b);
  return slots.length === new Set(slots.map((slot) => heads[slot])).size ? slots : undefined;
}

/**
 * Of a ring that has turned: all that may be outstanding, oldest first. The rings do not tell how the entries of
 * one follow those of the other. But what the used ring names at the same index as the available ring or at a
 * later one is used.
 */
function possible(heads: number[], entries: Entries, availIdx: number, usedIdx: number): number[] {
  const size = heads.length;
  const count = (availIdx - usedIdx) & 0xffff;
  // How long ago, in entries from avail.idx back, each ring names a head for the last time.
  const used = new Map<number, number>();
  for (let ago = size; ago > 0; ago--) used.set(entries[(usedIdx - ago) & (size - 1)].id, ago + count);
  const made = new Map<number, number>();
  for (let ago = size; ago > 0; ago--) made.set(heads[(availIdx - ago) & (size - 1)], ago);
  return [...made]
    .filter(([head, ago]) => ago < (used.get(head) ?? Number.POSITIVE_INFINITY))
    .sort(([, a], [, b]) => b - a)
    .map(([, ago]) => (availIdx - ago) & (size - 1));
}
