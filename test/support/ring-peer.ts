// The other side of a split ring on a thread of its own, played by hand: plain loads and stores for
// descriptors and entries, atomics for the words that order them. Nothing of vring in between.

import { parentPort, workerData } from 'node:worker_threads';
import type { RingAreas } from './split-ring.js';

/** What the peer does, and where. `control` is the address of the words named by `CONTROL`. */
export interface PeerData {
  role: 'watch-avail' | 'watch-used' | 'sleepy-device';
  memory: WebAssembly.Memory;
  areas: RingAreas;
  size: number;
  control: number;
  data: number;
  count: number;
}

/** Words (i32) that main thread and peer share. */
export const CONTROL = { ready: 0, done: 1, bell: 2, stop: 3 };

/** What buffer `i` has in its len field and in its first data word: different for neighbours and laps. */
export const lengthOf = (i: number): number => 4 + ((i * 7919) % 1021);
export const wordOf = (i: number): number => (i * 2654435761) >>> 0;

/** Where the data of the buffer in `slot` lies. */
export const dataOf = (data: number, slot: number): number => data + 64 * slot;

const LOST_AFTER_MS = 10_000;

/** Waits until `ready`, first awake and then dozing, in case both threads share a core. */
export function waitUntil(i32: Int32Array, ready: () => boolean): boolean {
  const dozeAt = CONTROL.ready;
  for (let i = 0, deadline = 0; !ready(); i++) {
    if (i < 20000) continue;
    deadline ||= Date.now() + LOST_AFTER_MS;
    if (Date.now() > deadline) return false;
    // Nobody notifies this word: a short sleep.
    Atomics.wait(i32, dozeAt, Atomics.load(i32, dozeAt), 0.05);
  }
  return true;
}

function run({ role, memory, areas, size, control, data, count }: PeerData): string {
  const { buffer } = memory;
  const u16 = new Uint16Array(buffer);
  const u32 = new Uint32Array(buffer);
  const i32 = new Int32Array(buffer, control, 4);
  const availIdx = (areas.driver + 2) >>> 1;
  const usedIdx = (areas.device + 2) >>> 1;
  const usedElem = (i: number) => (areas.device + 4 + 8 * (i % size)) >>> 2;
  Atomics.store(i32, CONTROL.ready, 1);

  if (role === 'sleepy-device') {
    const availEvent = (areas.device + 4 + 8 * size) >>> 1;
    let seen = 0;
    let random = 1;
    let idle = 0;
    while (Atomics.load(i32, CONTROL.stop) === 0) {
      const bell = Atomics.load(i32, CONTROL.bell);
      Atomics.store(u16, availEvent, seen & 0xffff);
      if (Atomics.load(u16, availIdx) === (seen & 0xffff)) {
        // Asleep: only the bell wakes it.
        const awake = () => Atomics.load(i32, CONTROL.bell) !== bell || Atomics.load(i32, CONTROL.stop) !== 0;
        if (!waitUntil(i32, awake)) {
          const idx = Atomics.load(u16, availIdx);
          return idx === (seen & 0xffff) ? 'the driver added nothing' : `no notification for buffer ${seen}`;
        }
        continue;
      }
      const elem = usedElem(seen);
      u32[elem] = u16[(areas.driver + 4 + 2 * (seen % size)) >>> 1];
      u32[elem + 1] = 0;
      seen++;
      Atomics.store(u16, usedIdx, seen & 0xffff);
      // Not always at once, so that the two looks meet the two stores at every distance.
      random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
      for (let delay = random >>> 21; delay > 0; delay--) idle += delay;
    }
    if (idle < 0) throw new Error('unreachable');
    return 'ok';
  }

  const idx = role === 'watch-avail' ? availIdx : usedIdx;
  for (let i = 0; i < count; ) {
    if (!waitUntil(i32, () => Atomics.load(u16, idx) !== (i & 0xffff))) return `nothing after ${i}`;
    for (const end = Atomics.load(u16, idx); (i & 0xffff) !== end; i++) {
      let len: number;
      let at: number;
      if (role === 'watch-avail') {
        const head = u16[(areas.driver + 4 + 2 * (i % size)) >>> 1];
        const desc = (areas.descriptor + 16 * head) >>> 2;
        at = u32[desc];
        len = u32[desc + 2];
      } else {
        at = dataOf(data, u32[usedElem(i)]);
        len = u32[usedElem(i) + 1];
      }
      if (len !== lengthOf(i)) return `buffer ${i} has length ${len}, not ${lengthOf(i)}`;
      if (u32[at >>> 2] !== wordOf(i)) return `buffer ${i} at ${at} has not been written yet`;
    }
    Atomics.store(i32, CONTROL.done, i);
  }
  return 'ok';
}

if (parentPort !== null) parentPort.postMessage(run(workerData));
