import { BATCH, type Task } from '../harness/serve.js';
import { type CycleOptions, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';

const NEXT = 1;
const WRITE = 2;

/**
 * The loads and stores of a split ring (virtio 1.4, 2.7) and nothing else: no check of what the other side
 * wrote, no counters, no records between caller and ring. What an engine in JavaScript costs beyond this is
 * the price of being safe and usable.
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
  const outs = outSegments(segments);
  const written = writtenBytes(segments);
  const bytes = segments * SEGMENT_BYTES;
  const cycles = Math.ceil(BATCH / count);

  // Kept between calls. Within a function they are local variables: those of a closure live in memory. One
  // function per stage, because the variables of all three together do not fit the registers: as one
  // function this takes twice as long.
  const kept = { free: 0, added: 0, popped: 0, got: 0, next: 0, calls: 0, sum: 0 };

  function addOne(): void {
    let { free, added, next } = kept;
    for (let i = 0; i < count; i++) {
      const head = free;
      const at = head << 2;
      free = link[head];
      u32[at] = buffersAt + next * SEGMENT_BYTES;
      u32[at + 1] = 0;
      u32[at + 2] = SEGMENT_BYTES;
      u32[at + 3] = WRITE;
      tokens[head] = next;
      u16[availRing + (added & mask)] = head;
      added = (added + 1) & 0xffff;
      next = (next + 1) & mask;
    }
    publish(added);
    kept.free = free;
    kept.next = next;
  }

  function addChains(): void {
    let { free, added, next } = kept;
    for (let i = 0; i < count; i++) {
      const head = free;
      let address = buffersAt + next * bytes;
      let at = 0;
      for (let s = 0; s < segments; s++) {
        at = free << 2;
        free = link[free];
        u32[at] = address;
        u32[at + 1] = 0;
        u32[at + 2] = SEGMENT_BYTES;
        u32[at + 3] = (s < outs ? NEXT : NEXT | WRITE) | (free << 16);
        address += SEGMENT_BYTES;
      }
      u32[at + 3] = WRITE;
      tokens[head] = next;
      u16[availRing + (added & mask)] = head;
      added = (added + 1) & 0xffff;
      next = (next + 1) & mask;
    }
    publish(added);
    kept.free = free;
    kept.next = next;
  }

  function publish(added: number): void {
    u16[availIdx] = added;
    if (eventIdx ? ((added - u16[availEvent] - 1) & 0xffff) < count : (u16[usedFlags] & 1) === 0)
      kept.calls++;
    kept.added = added;
  }

  function serve(): void {
    let { popped, sum } = kept;
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
    if (eventIdx ? ((popped - u16[usedEvent] - 1) & 0xffff) < count : (u16[availFlags] & 1) === 0)
      kept.calls++;
    kept.popped = popped;
    kept.sum = sum;
  }

  function collectOne(): void {
    let { free, got, sum } = kept;
    const end = u16[usedIdx];
    while (got !== end) {
      const used = usedRing + ((got & mask) << 1);
      const head = u32[used];
      sum = (sum + tokens[head] + u32[used + 1]) | 0;
      link[head] = free;
      free = head;
      got = (got + 1) & 0xffff;
    }
    kept.free = free;
    kept.got = got;
    kept.sum = sum;
  }

  function collectChains(): void {
    let { free, got, sum } = kept;
    const end = u16[usedIdx];
    while (got !== end) {
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
    kept.got = got;
    kept.sum = sum;
  }

  const add = segments === 1 ? addOne : addChains;
  const collect = segments === 1 ? collectOne : collectChains;
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        add();
        serve();
        collect();
      }
    },
  };
}
