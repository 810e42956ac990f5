import { BATCH, type Task } from '../harness/serve.js';
import { type CycleOptions, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';

const NEXT = 1;
const WRITE = 2;

/**
 * The loads and stores of a split ring (virtio 1.4, 2.7) and nothing else: no check of what the other side
 * wrote, no counters, no records between caller and ring, driver and device in one function. What any
 * engine in JavaScript costs beyond this is the price of being safe and usable.
 */
export function bareLoop(options: CycleOptions): Task {
  const { size, burst: count, segments, eventIdx } = options;
  const mask = size - 1;
  const availAt = size * 16;
  const usedAt = Math.ceil((availAt + 6 + size * 2) / 4) * 4;
  const buffersAt = usedAt + 6 + size * 8 + 58;
  const memory = new ArrayBuffer(buffersAt + size * segments * SEGMENT_BYTES);
  const u32 = new Uint32Array(memory, 0, memory.byteLength >>> 2);
  const u16 = new Uint16Array(memory, 0, memory.byteLength >>> 1);
  // Word indices of the fields.
  const availFlags = availAt >>> 1;
  const availIdx = availFlags + 1;
  const availRing = availFlags + 2;
  const usedEvent = availRing + size;
  const usedFlags = usedAt >>> 1;
  const usedIdx = usedFlags + 1;
  const usedRing = (usedAt + 4) >>> 2;
  const availEvent = (usedAt + 4 + size * 8) >>> 1;
  // What the driver keeps: the list of free descriptors, and the token of each head.
  const link = Uint16Array.from({ length: size }, (_, i) => (i + 1) & mask);
  const tokens = new Uint32Array(size);
  const flags = Uint32Array.from(
    { length: segments },
    (_, s) => (s < outSegments(segments) ? 0 : WRITE) | (s < segments - 1 ? NEXT : 0),
  );
  const written = writtenBytes(segments);
  const bytes = segments * SEGMENT_BYTES;
  const cycles = Math.ceil(BATCH / count);

  // Kept between cycles. Within one they are local variables: those of a closure live in memory.
  const kept = { free: 0, added: 0, popped: 0, got: 0, next: 0, calls: 0, sum: 0 };

  function cycle(): void {
    let { free, added, popped, got, next, calls, sum } = kept;
    // add
    for (let i = 0; i < count; i++) {
      const head = free;
      let address = buffersAt + next * bytes;
      for (let s = 0; s < segments; s++) {
        const at = free << 2;
        free = link[free];
        u32[at] = address;
        u32[at + 1] = 0;
        u32[at + 2] = SEGMENT_BYTES;
        u32[at + 3] = flags[s] | (free << 16);
        address += SEGMENT_BYTES;
      }
      tokens[head] = next;
      u16[availRing + (added & mask)] = head;
      added = (added + 1) & 0xffff;
      next = (next + 1) & mask;
    }
    u16[availIdx] = added;
    // kick
    if (eventIdx ? ((added - u16[availEvent] - 1) & 0xffff) < count : (u16[usedFlags] & 1) === 0) calls++;

    // pop and push
    const end = u16[availIdx];
    while (popped !== end) {
      const head = u16[availRing + (popped & mask)];
      let at = head << 2;
      for (;;) {
        const word = u32[at + 3];
        sum = (sum + u32[at] + u32[at + 1] + u32[at + 2]) | 0;
        if ((word & NEXT) === 0) break;
        at = (word >>> 16) << 2;
      }
      const used = usedRing + ((popped & mask) << 1);
      u32[used] = head;
      u32[used + 1] = written;
      popped = (popped + 1) & 0xffff;
    }
    u16[usedIdx] = popped;
    if (eventIdx ? ((popped - u16[usedEvent] - 1) & 0xffff) < count : (u16[availFlags] & 1) === 0) calls++;

    // get
    const last = u16[usedIdx];
    while (got !== last) {
      const used = usedRing + ((got & mask) << 1);
      const head = u32[used];
      sum = (sum + tokens[head] + u32[used + 1]) | 0;
      let tail = head;
      for (let s = 1; s < segments; s++) tail = link[tail];
      link[tail] = free;
      free = head;
      got = (got + 1) & 0xffff;
    }
    kept.free = free;
    kept.added = added;
    kept.popped = popped;
    kept.got = got;
    kept.next = next;
    kept.calls = calls;
    kept.sum = sum;
  }

  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) cycle();
    },
  };
}
