// Driver side of a split ring: what it remembers, and what stands in memory beside it.

import * as L from '../../../assembly/abi/layout.js';
import type { BufferState, DriverRingState } from '../../engine/engine.js';
import { distance } from '../state.js';
import { descriptorAddress, descriptorLength, hex, type Reach, type RingBytes } from './bytes.js';
import { Budget, Chain, offence } from './chain.js';
import type { BufferView, SideView } from './side.js';
import {
  type AvailView,
  availView,
  splitFlags,
  splitNext,
  type UsedEntryView,
  type UsedView,
  usedEntry,
  usedView,
} from './split.js';

export interface SplitBufferView extends BufferView {
  /** Its descriptors in the queue's own table, in chain order. */
  descriptors: number[];
}

/** What a split ring's driver has beside what every inspection has. */
export interface SplitDriverBody {
  ring: 'split';
  side: 'driver';
  /** Free-running: where the next buffer is made available, and the next used entry is expected. */
  position: { avail: number; used: number };
  callbacks: boolean;
  /** Buffers added since the last kickPrepare; 65536 stands for more. */
  unkicked: number;
  /** As it stands in memory; absent where the memory is not at hand, as `used` and `pending`. */
  avail?: AvailView;
  used?: UsedView;
  numFree: number;
  /** Free descriptors in the order in which they will be taken. */
  free: number[];
  inFlight: SplitBufferView[];
  /** Used entries that were not taken yet. `count` is the device's claim; at most the buffers in flight are listed. */
  pending?: { count: number; entries: UsedEntryView[] };
  /** In-order use: buffers of a batch still to be handed out, and the length of the last one. */
  batch?: { left: number; length: number };
}

export type SplitDriverView = SideView & SplitDriverBody;

export function splitDriver(
  state: DriverRingState,
  { size, inOrder }: { size: number; inOrder: boolean },
  memory: { ring: RingBytes; reach: Reach } | undefined,
  problems: string[],
): SplitDriverBody {
  const words = memory && { avail: availView(memory.ring, size), used: usedView(memory.ring, size) };
  if (words && words.avail.idx !== state.avail)
    problems.push(`avail.idx is ${words.avail.idx} in memory, the driver published ${state.avail}`);
  const budget = new Budget();
  return {
    ring: 'split',
    side: 'driver',
    position: { avail: state.avail, used: state.used },
    callbacks: state.events === 1,
    unkicked: state.unkicked,
    ...words,
    numFree: state.free.length,
    free: state.free,
    inFlight: state.buffers.map((buffer) => {
      const { id, token, writable, descriptors, table, segments } = buffer;
      return {
        id,
        token,
        descriptors,
        writable,
        ...(table !== 0 && { table: { address: hex(table), descriptors: segments } }),
        ...(memory && bufferSegments(buffer, memory.ring, memory.reach, budget)),
      };
    }),
    ...(memory &&
      words && { pending: pendingEntries(state, size, inOrder, memory.ring, words.used.idx, problems) }),
    ...(inOrder && { batch: { left: state.batchLeft, length: state.batchLength } }),
  };
}

/** Segments of a buffer, read along the way that the driver remembers and not along `next`. */
function bufferSegments(
  { id, writable, table, segments, descriptors }: BufferState,
  { descriptor }: RingBytes,
  reach: Reach,
  budget: Budget,
): Pick<BufferView, 'segments' | 'problem'> {
  const chain = new Chain(id, reach, budget);
  let from: DataView | undefined = descriptor;
  let path = descriptors;
  if (table !== 0) {
    const length = segments * L.DESC_BYTES;
    if (
      splitFlags(descriptor, id) !== L.DESC_F_INDIRECT ||
      descriptorAddress(descriptor, id) !== BigInt(table) ||
      descriptorLength(descriptor, id) !== length
    )
      chain.fail(`descriptor ${id} does not refer to the buffer's table any more`);
    from = reach.table(BigInt(table), length);
    path = Array.from({ length: segments }, (_, i) => i);
    if (from === undefined) chain.fail(offence(L.FAULT_TABLE_RANGE, table, length));
  }
  if (from !== undefined)
    for (const [i, index] of path.entries()) {
      const flags = splitFlags(from, index);
      const linked = (flags & ~L.DESC_F_WRITE) === (i + 1 < path.length ? L.DESC_F_NEXT : 0);
      if (!linked || (flags & L.DESC_F_NEXT && splitNext(from, index) !== path[i + 1]))
        chain.fail(`descriptor ${index} is not linked as the driver wrote it`);
      if (!chain.add(from, index, (flags & L.DESC_F_WRITE) !== 0)) break;
    }
  const { view } = chain;
  if (view.writable !== writable)
    chain.fail(`${view.writable} bytes are writable in memory, ${writable} when the buffer was added`);
  return { segments: view.segments, ...(chain.problem !== undefined && { problem: chain.problem }) };
}

function pendingEntries(
  { used, buffers, batchLeft }: DriverRingState,
  size: number,
  inOrder: boolean,
  ring: RingBytes,
  usedIdx: number,
  problems: string[],
): { count: number; entries: UsedEntryView[] } {
  const count = distance('split', size, used, usedIdx);
  if (count > buffers.length) problems.push(offence(L.FAULT_USED_IDX, usedIdx, used));
  const most = Math.min(count, buffers.length);
  const open = new Map(buffers.map((buffer, place) => [buffer.id, { place, writable: buffer.writable }]));
  const entries: UsedEntryView[] = [];
  // The entry of the batch that is being handed out was taken already.
  let i = batchLeft;
  while (i < most) {
    const entry = usedEntry(ring, (used + i) % size);
    const buffer = open.get(entry.id);
    entries.push(entry);
    // Buffers that the entry answers for: with in-order use all up to the one that it names.
    let step = 1;
    if (entry.id >= size) entry.problem = offence(L.FAULT_USED_ID_RANGE, entry.id, size);
    else if (buffer === undefined) entry.problem = offence(L.FAULT_USED_ID, entry.id, entry.length);
    else {
      if (entry.length > buffer.writable)
        entry.problem = offence(L.FAULT_USED_LEN, entry.length, buffer.writable);
      if (inOrder) step = buffer.place - i + 1;
      if (step < 1 || i + step > count) entry.problem = offence(L.FAULT_USED_BATCH, entry.id, count - i);
    }
    // Where an entry of a batch is bad, nobody knows where the next one lies.
    if (inOrder && (buffer === undefined || step < 1)) break;
    open.delete(entry.id);
    i += step;
  }
  return { count, entries };
}
