import { BATCH, type Task } from '../harness/serve.js';
import { type CycleParams, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';

const NEXT = 1;
const WRITE = 2;

/**
 * The loads and stores of a cycle through a split ring (virtio 1.4, 2.7) and nothing else: the same records
 * between caller and ring, the same private notes of each buffer and element, the same ring. No check of
 * what the other side wrote, no counters, no shape but the one that is measured, every address a constant. What
 * an engine in JavaScript costs beyond this is the price of being safe and general.
 */
export function bareLoop(options: CycleParams): Task {
  const { size, burst: count, segments, eventIdx } = options;
  const mask = size - 1;
  const align = (address: number) => Math.ceil(address / 16) * 16;
  const availAt = size * 16;
  const usedAt = align(availAt + 6 + size * 2);
  const segmentsAt = align(usedAt + 6 + size * 8);
  const tokensAt = segmentsAt + count * segments * 16;
  const elementsAt = align(tokensAt + count * 4);
  const piecesAt = elementsAt + count * 16;
  const completionsAt = align(piecesAt + count * segments * 8);
  const buffersAt = align(completionsAt + count * 8);
  const memory = new ArrayBuffer(buffersAt + size * segments * SEGMENT_BYTES);
  const u32 = new Uint32Array(memory, 0, memory.byteLength >>> 2);
  const u16 = new Uint16Array(memory, 0, memory.byteLength >>> 1);
  // Indices of the fields.
  const availFlags = availAt >>> 1;
  const availIdx = availFlags + 1;
  const availRing = availFlags + 2;
  const usedEvent = availRing + size;
  const usedFlags = usedAt >>> 1;
  const usedIdx = usedFlags + 1;
  const usedRing = (usedAt + 4) >>> 2;
  const availEvent = (usedAt + 4 + size * 8) >>> 1;
  const records = segmentsAt >>> 2;
  const tokens = tokensAt >>> 2;
  const elements = elementsAt >>> 2;
  const pieces = piecesAt >>> 2;
  const completions = completionsAt >>> 2;
  // What the driver keeps: the list of free descriptors; token, writable length, segments and last descriptor
  // of each buffer. What the device keeps: state and writable length of each element, and the order of pops.
  const link = Uint16Array.from({ length: size }, (_, i) => (i + 1) & mask);
  const buffers = new Uint32Array(size * 4);
  const heads = new Uint32Array(size * 2);
  const order = new Uint16Array(size);
  const outs = outSegments(segments);
  const written = writtenBytes(segments);
  const bytes = segments * SEGMENT_BYTES;
  const cycles = Math.ceil(BATCH / count);

  // Kept between calls. Within a function they are local variables: those of a closure live in memory. One
  // function per stage, because the variables of all together do not fit the registers.
  const kept = { free: 0, added: 0, popped: 0, pushed: 0, got: 0, next: 0, calls: 0, sum: 0 };

  function write(): void {
    let { next } = kept;
    let at = records;
    for (let i = 0; i < count; i++) {
      const first = at;
      let address = buffersAt + next * bytes;
      for (let s = 0; s < segments; s++) {
        u32[at] = address;
        u32[at + 1] = 0;
        u32[at + 2] = SEGMENT_BYTES;
        u32[at + 3] = (s < outs ? 0 : WRITE) | (s + 1 < segments ? NEXT : 0);
        at += 4;
        address += SEGMENT_BYTES;
      }
      u32[first + 3] |= segments << 16;
      u32[tokens + i] = next;
      next = (next + 1) & mask;
    }
    kept.next = next;
  }

  function writeOne(): void {
    let { next } = kept;
    for (let i = 0; i < count; i++) {
      const at = records + (i << 2);
      u32[at] = buffersAt + next * SEGMENT_BYTES;
      u32[at + 1] = 0;
      u32[at + 2] = SEGMENT_BYTES;
      u32[at + 3] = (1 << 16) | WRITE;
      u32[tokens + i] = next;
      next = (next + 1) & mask;
    }
    kept.next = next;
  }

  function addOne(): void {
    let { free, added } = kept;
    for (let i = 0; i < count; i++) {
      const record = records + (i << 2);
      const head = free;
      const at = head << 2;
      const length = u32[record + 2];
      free = link[head];
      u32[at] = u32[record];
      u32[at + 1] = u32[record + 1];
      u32[at + 2] = length;
      u32[at + 3] = u32[record + 3] & WRITE;
      buffers[at] = u32[tokens + i];
      buffers[at + 1] = length;
      buffers[at + 2] = 1;
      buffers[at + 3] = head;
      u16[availRing + (added & mask)] = head;
      added = (added + 1) & 0xffff;
    }
    kept.free = free;
    publish(added);
  }

  function addChains(): void {
    let { free, added } = kept;
    let record = records;
    for (let i = 0; i < count; i++) {
      const head = free;
      let tail = head;
      let writable = 0;
      for (let s = 0; s < segments; s++) {
        const at = free << 2;
        const length = u32[record + 2];
        const flags = u32[record + 3] & 0xffff;
        tail = free;
        free = link[free];
        u32[at] = u32[record];
        u32[at + 1] = u32[record + 1];
        u32[at + 2] = length;
        u32[at + 3] = (flags & NEXT) === 0 ? flags : flags | (free << 16);
        if ((flags & WRITE) !== 0) writable += length;
        record += 4;
      }
      const buffer = head << 2;
      buffers[buffer] = u32[tokens + i];
      buffers[buffer + 1] = writable;
      buffers[buffer + 2] = segments;
      buffers[buffer + 3] = tail;
      u16[availRing + (added & mask)] = head;
      added = (added + 1) & 0xffff;
    }
    kept.free = free;
    publish(added);
  }

  function publish(added: number): void {
    u16[availIdx] = added;
    if (eventIdx ? ((added - u16[availEvent] - 1) & 0xffff) < count : (u16[usedFlags] & 1) === 0)
      kept.calls++;
    kept.added = added;
  }

  function pop(): void {
    let { popped } = kept;
    const end = u16[availIdx];
    let element = elements;
    let piece = pieces;
    let first = 0;
    while (popped !== end) {
      const head = u16[availRing + (popped & mask)];
      let at = head << 2;
      let outCount = 0;
      let inCount = 0;
      let writable = 0;
      for (;;) {
        const word = u32[at + 3];
        const length = u32[at + 2];
        u32[piece] = u32[at] + u32[at + 1];
        u32[piece + 1] = length;
        piece += 2;
        if ((word & WRITE) === 0) outCount++;
        else {
          inCount++;
          writable += length;
        }
        if ((word & NEXT) === 0) break;
        at = (word >>> 16) << 2;
      }
      u32[element] = head;
      u32[element + 1] = first;
      u32[element + 2] = outCount | (inCount << 16);
      u32[element + 3] = 0;
      element += 4;
      first += segments;
      heads[head << 1] = 1;
      heads[(head << 1) + 1] = writable;
      order[popped & mask] = head;
      popped = (popped + 1) & 0xffff;
    }
    if (eventIdx) u16[availEvent] = popped;
    kept.popped = popped;
  }

  function serve(): void {
    let { sum } = kept;
    for (let i = 0; i < count; i++) {
      const element = elements + (i << 2);
      sum = (sum + u32[element]) | 0;
      const first = u32[element + 1];
      const counts = u32[element + 2];
      const end = first + (counts & 0xffff) + (counts >>> 16);
      for (let p = first; p < end; p++) sum = (sum + u32[pieces + p * 2] + u32[pieces + p * 2 + 1]) | 0;
      u32[element + 3] = written;
    }
    kept.sum = sum;
  }

  function push(): void {
    let { pushed } = kept;
    for (let i = 0; i < count; i++) {
      const element = elements + (i << 2);
      const head = u32[element];
      const used = usedRing + ((pushed & mask) << 1);
      heads[head << 1] = 0;
      u32[used] = head;
      u32[used + 1] = u32[element + 3];
      pushed = (pushed + 1) & 0xffff;
    }
    u16[usedIdx] = pushed;
    if (eventIdx ? ((pushed - u16[usedEvent] - 1) & 0xffff) < count : (u16[availFlags] & 1) === 0)
      kept.calls++;
    kept.pushed = pushed;
  }

  function get(): void {
    let { free, got } = kept;
    const end = u16[usedIdx];
    let completion = completions;
    while (got !== end) {
      const used = usedRing + ((got & mask) << 1);
      const head = u32[used];
      const buffer = head << 2;
      u32[completion] = buffers[buffer];
      u32[completion + 1] = u32[used + 1];
      completion += 2;
      buffers[buffer + 2] = 0;
      link[buffers[buffer + 3]] = free;
      free = head;
      got = (got + 1) & 0xffff;
    }
    if (eventIdx) u16[usedEvent] = got;
    kept.free = free;
    kept.got = got;
  }

  function collect(): void {
    let { sum } = kept;
    for (let i = 0; i < count; i++) {
      const completion = completions + i * 2;
      sum = (sum + u32[completion] + u32[completion + 1]) | 0;
    }
    kept.sum = sum;
  }

  const fill = segments === 1 ? writeOne : write;
  const add = segments === 1 ? addOne : addChains;
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        fill();
        add();
        pop();
        serve();
        push();
        get();
        collect();
      }
    },
  };
}
