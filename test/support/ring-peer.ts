// The other side of a split ring on a thread of its own, played by hand: plain loads and stores for
// descriptors and entries, atomics for the words that order them. Nothing of vring in between.

import { parentPort, workerData } from 'node:worker_threads';
import { CONTROL, dataOf, lengthOf, type PeerData, waitUntil, wordOf } from './peer.js';
import type { RingAreas } from './split-ring.js';

/** What the peer does, and where. */
export interface RingPeerData extends PeerData {
  role: 'watch-avail' | 'watch-used' | 'sleepy-device';
  areas: RingAreas;
  size: number;
  data: number;
  count: number;
}

function run({ role, memory, areas, size, control, data, count }: RingPeerData): string {
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
