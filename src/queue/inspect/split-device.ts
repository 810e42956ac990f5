// Device side of a split ring: what it remembers, and what the driver put into memory beside it.

import * as L from '../../../assembly/abi/layout.js';
import type { DeviceRingState } from '../../engine/engine.js';
import { distance } from '../state.js';
import type { Reach, RingBytes } from './bytes.js';
import { Budget, type ChainView, offence, PENDING_MAX } from './chain.js';
import { type ElementView, elementViews, type SideView } from './side.js';
import { type AvailView, availEntry, availView, splitChain, type UsedView, usedView } from './split.js';

/** A buffer that the driver made available. */
export interface SplitPendingView extends ChainView {
  /** Of the available ring. */
  slot: number;
  /** Head of its chain. */
  id: number;
}

/** What a split ring's device has beside what every inspection has. */
export interface SplitDeviceBody {
  ring: 'split';
  side: 'device';
  /** Free-running: where the next buffer is popped, and the next used entry goes. */
  position: { avail: number; used: number };
  notifications: boolean;
  /** Elements pushed since the last shouldInterrupt; 65536 stands for more. */
  unsignalled: number;
  /** As it stands in memory; absent where the memory is not at hand, as `used` and `pending`. */
  avail?: AvailView;
  used?: UsedView;
  /** In the order in which they were popped; those that are filled come last. */
  inFlight: ElementView[];
  /** Available and not popped. `count` is the driver's claim; the first ones are listed. */
  pending?: { count: number; buffers: SplitPendingView[] };
}

export type SplitDeviceView = SideView & SplitDeviceBody;

export function splitDevice(
  state: DeviceRingState,
  { size, indirect }: { size: number; indirect: boolean },
  memory: { ring: RingBytes; reach: Reach } | undefined,
  problems: string[],
): SplitDeviceBody {
  const words = memory && { avail: availView(memory.ring, size), used: usedView(memory.ring, size) };
  if (words && words.used.idx !== state.used)
    problems.push(`used.idx is ${words.used.idx} in memory, the device published ${state.used}`);
  const budget = new Budget();
  const walk = memory && ((id: number) => splitChain(memory.ring, size, id, indirect, memory.reach, budget));
  return {
    ring: 'split',
    side: 'device',
    position: { avail: state.avail, used: state.used },
    notifications: state.events === 1,
    unsignalled: state.unsignalled,
    ...words,
    inFlight: elementViews(state, ({ id }) => walk && { chain: walk(id), whole: true }),
    ...(memory &&
      words &&
      walk && { pending: pendingBuffers(state, size, memory.ring, words.avail.idx, walk, problems) }),
  };
}

function pendingBuffers(
  { avail, elements, fills }: DeviceRingState,
  size: number,
  ring: RingBytes,
  availIdx: number,
  walk: (id: number) => ChainView,
  problems: string[],
): { count: number; buffers: SplitPendingView[] } {
  const count = distance('split', size, avail, availIdx);
  if (count > size) problems.push(offence(L.FAULT_AVAIL_IDX, availIdx, avail));
  const taken = new Set([...elements, ...fills].map(({ id }) => id));
  const buffers: SplitPendingView[] = [];
  for (let i = 0; i < Math.min(count, size, PENDING_MAX); i++) {
    const slot = (avail + i) % size;
    const id = availEntry(ring, slot);
    const none = { slot, id, segments: [], writable: 0 };
    if (id >= size) buffers.push({ ...none, problem: offence(L.FAULT_HEAD_RANGE, id, size) });
    else if (taken.has(id))
      buffers.push({ ...none, problem: offence(L.FAULT_HEAD_IN_FLIGHT, id, taken.size) });
    else {
      buffers.push({ slot, id, ...walk(id) });
      taken.add(id);
    }
  }
  return { count, buffers };
}
