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
   * Made available and not used, oldest first. `exact` is false where buffers were used out of order and the
   * rings do not go back far enough to tell which ones are left.
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
  let exact = true;
  let open: number[] = [];
  if (count > size)
    problems.push(`avail.idx ${avail.idx} is more than the queue size ahead of used.idx ${used.idx}`);
  else ({ open, exact } = outstanding(heads, entries, avail.idx, used.idx, count, size));
  const budget = new Budget();
  return {
    ring: 'split',
    size,
    problems,
    avail: { ...avail, ring: heads },
    used: { ...used, ring: entries },
    outstanding: {
      count,
      exact,
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

/**
 * Slots of the available ring whose buffers are outstanding, oldest first. A head is made available and used
 * in turn. So one that the available ring names more often than the used ring of the same time is outstanding;
 * with as many of both, it depends on how the time before began, and the latest ones are taken for it.
 */
function outstanding(
  heads: number[],
  entries: { id: number }[],
  availIdx: number,
  usedIdx: number,
  count: number,
  size: number,
): { open: number[]; exact: boolean } {
  // A ring younger than its size has slots that mean nothing yet, and nothing came before.
  const young = availIdx < size && count <= availIdx;
  const back = young ? availIdx : size;
  const balance = new Map<number, number>();
  for (let i = 1; i <= back - count; i++) {
    const { id } = entries[(usedIdx - i) & (size - 1)];
    balance.set(id, (balance.get(id) ?? 0) - 1);
  }
  const latest = new Map<number, number>();
  for (let i = 1; i <= back; i++) {
    const slot = (availIdx - i) & (size - 1);
    const head = heads[slot];
    balance.set(head, (balance.get(head) ?? 0) + 1);
    if (!latest.has(head)) latest.set(head, slot);
  }
  const all = [...latest].map(([head, slot]) => ({ slot, left: balance.get(head) ?? 0 }));
  const sure = all.filter(({ left }) => left > 0).slice(0, count);
  const guessed = all.filter(({ left }) => left === 0).slice(0, young ? 0 : count - sure.length);
  const age = (slot: number) => (availIdx - 1 - slot) & (size - 1);
  return {
    open: [...sure, ...guessed].map(({ slot }) => slot).sort((a, b) => age(b) - age(a)),
    exact: sure.length === count,
  };
}
