// The other side of a packed ring on a thread of its own, played by hand: plain loads and stores for
// what a descriptor holds, atomics for the flags and events that order them. Nothing of vring in between.

import { parentPort, workerData } from 'node:worker_threads';
import { AVAIL, advance, DESC, NEXT, USED, WRAP, WRITE } from './packed-ring.js';
import { CONTROL, dataOf, lengthOf, type PeerData, waitUntil, wordOf } from './peer.js';
import type { RingAreas } from './split-ring.js';

/** What the peer does, and where. */
export interface PackedPeerData extends PeerData {
  role: 'device' | 'driver' | 'sleepy-device';
  areas: RingAreas;
  size: number;
  data: number;
  count: number;
}

/** Places for data: more than buffers that are in flight or about to be. */
export const PLACES = 128;

/** Descriptors of list `i`. */
export const countOf = (i: number): number => 1 + (i % 3);

const available = (position: number): number => (position & WRAP ? AVAIL : USED);
const used = (position: number): number => (position & WRAP ? AVAIL | USED : 0);

function run(options: PackedPeerData): string {
  const { role, memory, areas, size, control, data, count } = options;
  const u16 = new Uint16Array(memory.buffer);
  const u32 = new Uint32Array(memory.buffer);
  const i32 = new Int32Array(memory.buffer, control, 4);
  const word = (position: number) => (areas.descriptor + 16 * (position & 0x7fff)) >>> 2;
  const flagsAt = (position: number) => (word(position) << 1) + 7;
  const owner = (position: number) => Atomics.load(u16, flagsAt(position)) & (AVAIL | USED);
  Atomics.store(i32, CONTROL.ready, 1);
  const stopped = () => Atomics.load(i32, CONTROL.stop) !== 0;

  /** Uses `slots` slots: all of the descriptor first, its flags last. */
  const use = (position: number, id: number, len: number) => {
    u32[word(position) + 2] = len;
    u16[(word(position) << 1) + 6] = id;
    Atomics.store(u16, flagsAt(position), used(position) | (len > 0 ? WRITE : 0));
  };

  let position = WRAP;
  if (role === 'sleepy-device') {
    const event = areas.device >>> 1;
    let random = 1;
    let idle = 0;
    Atomics.store(u16, event + 1, DESC);
    while (!stopped()) {
      const bell = Atomics.load(i32, CONTROL.bell);
      Atomics.store(u16, event, position);
      if (owner(position) !== available(position)) {
        // Asleep: only the bell wakes it.
        if (!waitUntil(i32, () => Atomics.load(i32, CONTROL.bell) !== bell || stopped()))
          return owner(position) === available(position)
            ? `no notification for the descriptor at ${position}`
            : 'the driver added nothing';
        continue;
      }
      use(position, u16[(word(position) << 1) + 6], 0);
      position = advance(position, 1, size);
      // Not always at once, so that the two looks meet the two stores at every distance.
      random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
      for (let delay = random >>> 21; delay > 0; delay--) idle += delay;
    }
    if (idle < 0) throw new Error('unreachable');
    return 'ok';
  }

  if (role === 'device') {
    for (let i = 0; i < count; i++) {
      const head = position;
      if (!waitUntil(i32, () => owner(head) === available(head))) return `nothing after list ${i}`;
      const n = countOf(i);
      let id = 0;
      for (let k = 0; k < n; k++) {
        const w = word(position);
        const flags = u16[(w << 1) + 7];
        if ((flags & (AVAIL | USED)) !== available(position))
          return `descriptor ${k} of list ${i} is not available, its first one is`;
        if ((flags & NEXT) !== (k < n - 1 ? NEXT : 0))
          return `descriptor ${k} of list ${i} has flags ${flags}`;
        if (u32[w + 2] !== lengthOf(i + k)) return `descriptor ${k} of list ${i} has length ${u32[w + 2]}`;
        const at = u32[w];
        if (u32[at >>> 2] !== wordOf(i + k)) return `segment ${k} of list ${i} at ${at} is not written yet`;
        id = u16[(w << 1) + 6];
        position = advance(position, 1, size);
      }
      use(head, id, lengthOf(i + n - 1));
    }
    return 'ok';
  }

  // The driver: lists of a number and of room for an answer, one or two segments.
  const free = Array.from({ length: size }, (_, id) => id);
  const listOf = new Map<number, number>();
  /** What stood in used descriptors that this side has collected and not written over, by slot. */
  const last = new Map<number, [number, number]>();
  let collected = WRAP;
  let room = size;
  let offered = 0;
  let done = 0;
  const collect = (): string | undefined => {
    while (owner(collected) === used(collected) && listOf.size > 0) {
      const w = word(collected);
      const id = u16[(w << 1) + 6];
      const i = listOf.get(id);
      if (i === undefined) return `used id ${id} is not in flight`;
      if (u32[w + 2] !== lengthOf(i)) return `list ${i} has used length ${u32[w + 2]}, not ${lengthOf(i)}`;
      if (u32[dataOf(data, i % PLACES) >>> 2] !== wordOf(i)) return `list ${i} has not been written yet`;
      last.set(collected & 0x7fff, [u32[w + 2], u32[w + 3]]);
      listOf.delete(id);
      free.push(id);
      const slots = 2 + (i % 2);
      room += slots;
      collected = advance(collected, slots, size);
      done++;
    }
    return undefined;
  };
  /** Writes the next descriptor; its flags too, unless it is the first of its list. */
  const put = (addr: number, len: number, id: number, flags: number, first: boolean): string | undefined => {
    const w = word(position);
    const kept = last.get(position & 0x7fff);
    last.delete(position & 0x7fff);
    if (kept !== undefined && (u32[w + 2] !== kept[0] || u32[w + 3] !== kept[1]))
      return `the used descriptor in slot ${position & 0x7fff} has changed after it was used`;
    u32[w] = addr;
    u32[w + 1] = 0;
    u32[w + 2] = len;
    u16[(w << 1) + 6] = id;
    if (!first) u16[(w << 1) + 7] = flags | available(position);
    position = advance(position, 1, size);
    return undefined;
  };
  while (done < count) {
    while (offered < count && room >= 3 && free.length > 0) {
      const slots = 2 + (offered % 2);
      const id = free.shift() ?? 0;
      const at = dataOf(data, offered % PLACES);
      const head = position;
      u32[(at >>> 2) + 4] = offered;
      let wrong = put(at + 16, 4, id, NEXT, true) ?? put(at, 2048, id, WRITE | (slots > 2 ? NEXT : 0), false);
      if (slots > 2) wrong ??= put(at + 32, 16, id, WRITE, false);
      if (wrong !== undefined) return wrong;
      listOf.set(id, offered++);
      room -= slots;
      Atomics.store(u16, flagsAt(head), NEXT | available(head));
    }
    if (!waitUntil(i32, () => owner(collected) === used(collected) || stopped()))
      return `nothing after ${done}`;
    if (stopped()) return 'stopped';
    const wrong = collect();
    if (wrong !== undefined) return wrong;
  }
  return 'ok';
}

if (parentPort !== null) {
  const verdict = run(workerData);
  const { memory, control } = workerData as PackedPeerData;
  // Nobody needs to wait any longer.
  Atomics.store(new Int32Array(memory.buffer, control, 4), CONTROL.stop, 1);
  parentPort.postMessage(verdict);
}
