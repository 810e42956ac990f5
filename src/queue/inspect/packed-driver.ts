// Driver side of a packed ring: what it remembers, and what stands in memory beside it.

import * as L from '../../../assembly/abi/layout.js';
import type { BufferState, DriverRingState } from '../../engine/engine.js';
import { descriptorAddress, descriptorLength, hex, type Reach, type RingBytes } from './bytes.js';
import { Budget, Chain, offence } from './chain.js';
import {
  addTable,
  type EventView,
  eventFlags,
  eventView,
  isAvailable,
  isUsed,
  moved,
  type PackedPosition,
  packedFlags,
  packedId,
  packedPosition,
} from './packed.js';
import type { BufferView, SideView } from './side.js';

export interface PackedBufferView extends BufferView {
  /** Where its first descriptor was written, and how many slots it takes. */
  slot: number;
  slots: number;
  /**
   * How many of these slots hold something else by now: buffers that were used before this one let the ring go
   * on over it. Segments that stood there are not listed.
   */
  overwritten?: number;
}

/** A used descriptor. */
export interface PackedUsedView {
  slot: number;
  id: number;
  length: number;
  problem?: string;
}

/** What a packed ring's driver has beside what every inspection has. */
export interface PackedDriverBody {
  ring: 'packed';
  side: 'driver';
  /** Where the next descriptor is made available, and the next used one is expected. */
  position: { avail: PackedPosition; used: PackedPosition };
  /** Event flags as the driver wrote them last. */
  callbacks: string;
  /** Slots made available since the last kickPrepare; 65536 stands for more. */
  unkicked: number;
  /** As it stands in memory; absent where the memory is not at hand, as `deviceEvent` and `pending`. */
  driverEvent?: EventView;
  deviceEvent?: EventView;
  /** Free slots. */
  numFree: number;
  /** Free buffer ids in the order in which they will be taken. */
  free: number[];
  inFlight: PackedBufferView[];
  /** Used descriptors that were not taken yet. */
  pending?: { entries: PackedUsedView[] };
  /** In-order use: buffers of a batch still to be handed out, and the length of the last one. */
  batch?: { left: number; length: number };
}

export type PackedDriverView = SideView & PackedDriverBody;

export function packedDriver(
  state: DriverRingState,
  { size, inOrder }: { size: number; inOrder: boolean },
  memory: { ring: RingBytes; reach: Reach } | undefined,
  problems: string[],
): PackedDriverBody {
  const avail = packedPosition(state.avail);
  const callbacks = eventFlags(state.events);
  const events = memory && {
    driverEvent: eventView(memory.ring.driver),
    deviceEvent: eventView(memory.ring.device),
  };
  if (events && events.driverEvent.flags !== callbacks)
    problems.push(
      `the driver's event flags are ${events.driverEvent.flags} in memory, the driver wrote ${callbacks}`,
    );
  const budget = new Budget();
  return {
    ring: 'packed',
    side: 'driver',
    position: { avail, used: packedPosition(state.used) },
    callbacks,
    unkicked: state.unkicked,
    ...events,
    numFree: size - slotsOf(state.buffers),
    free: state.free,
    inFlight: state.buffers.map((buffer) => ({
      id: buffer.id,
      token: buffer.token,
      slot: buffer.descriptors[0],
      slots: buffer.descriptors.length,
      writable: buffer.writable,
      ...(buffer.table !== 0 && { table: { address: hex(buffer.table), descriptors: buffer.segments } }),
      ...(memory && bufferSegments(buffer, avail, size, memory.ring.descriptor, memory.reach, budget)),
    })),
    ...(memory && { pending: { entries: pendingEntries(state, size, inOrder, memory.ring.descriptor) } }),
    ...(inOrder && { batch: { left: state.batchLeft, length: state.batchLength } }),
  };
}

const slotsOf = (buffers: readonly BufferState[]): number =>
  buffers.reduce((sum, { descriptors }) => sum + descriptors.length, 0);

function bufferSegments(
  { id, writable, table, segments, descriptors }: BufferState,
  avail: PackedPosition,
  size: number,
  ring: DataView,
  reach: Reach,
  budget: Budget,
): Pick<PackedBufferView, 'segments' | 'problem' | 'overwritten'> {
  const chain = new Chain(descriptors[0], reach, budget);
  let overwritten = 0;
  for (const [i, slot] of descriptors.entries()) {
    // What the driver wrote there last: in this lap behind the position, ahead of it in the lap before.
    const wrap = slot < avail.slot === (avail.wrap === 1) ? 1 : 0;
    const flags = packedFlags(ring, slot);
    if (!isAvailable(flags, wrap) || packedId(ring, slot) !== id) overwritten++;
    else if (table !== 0) {
      const same =
        descriptorAddress(ring, slot) === BigInt(table) &&
        descriptorLength(ring, slot) === segments * L.DESC_BYTES &&
        (flags & (L.DESC_F_INDIRECT | L.DESC_F_NEXT)) === L.DESC_F_INDIRECT;
      if (!same) chain.fail(`slot ${slot} does not refer to the buffer's table any more`);
    } else {
      if ((flags & (L.DESC_F_INDIRECT | L.DESC_F_NEXT)) !== (i + 1 < descriptors.length ? L.DESC_F_NEXT : 0))
        chain.fail(`slot ${slot} is not linked as the driver wrote it`);
      if (!chain.add(ring, slot, (flags & L.DESC_F_WRITE) !== 0)) break;
    }
  }
  // The driver knows where its table is, whatever became of the slot.
  if (table !== 0) {
    const bytes = reach.table(BigInt(table), segments * L.DESC_BYTES);
    if (bytes !== undefined) addTable(chain, bytes, size);
    else chain.fail(offence(L.FAULT_TABLE_RANGE, table, segments * L.DESC_BYTES));
  }
  const { view } = chain;
  if ((table !== 0 || overwritten === 0) && view.writable !== writable)
    chain.fail(`${view.writable} bytes are writable in memory, ${writable} when the buffer was added`);
  return {
    segments: view.segments,
    ...(overwritten > 0 && { overwritten }),
    ...(chain.problem !== undefined && { problem: chain.problem }),
  };
}

function pendingEntries(
  { used, buffers, batchLeft }: DriverRingState,
  size: number,
  inOrder: boolean,
  ring: DataView,
): PackedUsedView[] {
  const open = new Map(buffers.map((buffer, place) => [buffer.id, { ...buffer, place }]));
  const entries: PackedUsedView[] = [];
  // The descriptor of the batch that is being handed out was taken already.
  let first = batchLeft;
  let at = moved(packedPosition(used), slotsOf(buffers.slice(0, first)), size);
  // Ends: each turn but the last takes a buffer out of `open`.
  for (;;) {
    const flags = packedFlags(ring, at.slot);
    if (!isUsed(flags, at.wrap)) break;
    const id = packedId(ring, at.slot);
    const length = descriptorLength(ring, at.slot);
    const entry: PackedUsedView = { slot: at.slot, id, length };
    entries.push(entry);
    const buffer = open.get(id);
    if (buffer === undefined || buffer.place < first) {
      entry.problem =
        id >= size ? offence(L.FAULT_USED_ID_RANGE, id, size) : offence(L.FAULT_USED_ID, id, length);
      break;
    }
    if (length > buffer.writable) {
      // Without WRITE it is reserved (2.8.4), and no claim.
      if (flags & L.DESC_F_WRITE) entry.problem = offence(L.FAULT_USED_LEN, length, buffer.writable);
      else entry.length = 0;
    }
    open.delete(id);
    // With in-order use a descriptor answers for all buffers up to the one that it names.
    const answered = inOrder ? buffers.slice(first, buffer.place + 1) : [buffer];
    if (inOrder) first = buffer.place + 1;
    at = moved(at, slotsOf(answered), size);
  }
  return entries;
}
