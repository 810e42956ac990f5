import type { Burst, Host } from '../../index.js';
import type { Frames } from './frames.js';
import { splitPacket } from './split.js';

/** What a receive buffer holds before the device writes to it, and what lies behind each segment. */
const POISON = 0xa5;
const GUARD_BYTES = 16;
const GUARD = Buffer.alloc(GUARD_BYTES, POISON);

/**
 * Receive buffers. All of one shape: the segments of the longest packet, a guard behind each one. Buffers
 * that came back are checked many at a time, so that the clock has to be stopped only now and then.
 */
export class ReceivePool {
  readonly segments: number;
  private readonly lengths: number[];
  /** Offset of each segment in a buffer, and bytes of a buffer. */
  private readonly offsets: number[] = [];
  private readonly stride: number;
  private readonly base: number;
  private readonly memory: Buffer;
  private readonly expected: Buffer;
  /** Stack of buffers that are free; those that wait for the check, with packet and written length. */
  private readonly free: Uint32Array;
  private freeCount: number;
  private readonly done: Uint32Array;
  private readonly packets: Uint32Array;
  private readonly written: Uint32Array;
  private doneCount = 0;

  constructor(
    engine: Host,
    private readonly frames: Frames,
    buffers: number,
    segments: number,
  ) {
    const { lengths, offsets, stride } = shape(frames.longest, segments);
    this.lengths = lengths;
    this.offsets = offsets;
    this.stride = stride;
    this.segments = lengths.length;
    this.base = engine.alloc(stride * buffers, GUARD_BYTES);
    this.memory = Buffer.from(engine.buffer as ArrayBuffer, this.base, stride * buffers).fill(POISON);
    this.expected = Buffer.from(frames.bytes as unknown as ArrayBuffer);
    this.free = Uint32Array.from({ length: buffers }, (_, i) => i);
    this.freeCount = buffers;
    this.done = new Uint32Array(buffers);
    this.packets = new Uint32Array(buffers);
    this.written = new Uint32Array(buffers);
  }

  /** Bytes of memory that a pool takes. */
  static bytes(longest: number, buffers: number, segments: number): number {
    return shape(longest, segments).stride * buffers;
  }

  /** Buffers that can be posted before the next check. */
  get available(): number {
    return this.freeCount;
  }

  /** Appends a free buffer to a burst, with its number as the token. */
  post(burst: Burst): void {
    const buffer = this.free[--this.freeCount];
    const at = this.base + buffer * this.stride;
    for (let s = 0; s < this.segments; s++) burst.in(at + this.offsets[s], this.lengths[s]);
    burst.end(buffer);
  }

  /** Takes a buffer back, for the check: it should hold packet `packet`. */
  take(buffer: number, packet: number, written: number): void {
    const i = this.doneCount++;
    this.done[i] = buffer;
    this.packets[i] = packet;
    this.written[i] = written;
  }

  /** Compares every byte of the buffers that came back and frees them. @returns how many were wrong */
  check(): number {
    let wrong = 0;
    for (let i = 0; i < this.doneCount; i++) {
      const buffer = this.done[i];
      if (!this.checkOne(buffer, this.packets[i], this.written[i])) wrong++;
      this.free[this.freeCount++] = buffer;
    }
    this.doneCount = 0;
    return wrong;
  }

  private checkOne(buffer: number, packet: number, written: number): boolean {
    const { memory, expected, lengths, offsets } = this;
    const at = buffer * this.stride;
    const from = this.frames.offsets[packet];
    const length = this.frames.lengths[packet];
    let right = written === length;
    let seen = 0;
    for (let s = 0; s < this.segments && seen < written; s++) {
      const start = at + offsets[s];
      const end = start + Math.min(lengths[s], written - seen);
      // Not beyond the packet that was expected: a longer one is wrong already.
      const bytes = Math.max(0, Math.min(end - start, length - seen));
      if (memory.compare(expected, from + seen, from + seen + bytes, start, start + bytes) !== 0)
        right = false;
      if (memory.compare(GUARD, 0, GUARD_BYTES, end, end + GUARD_BYTES) !== 0) right = false;
      memory.fill(POISON, start, end + GUARD_BYTES);
      seen += end - start;
    }
    return right;
  }
}

function shape(longest: number, segments: number): { lengths: number[]; offsets: number[]; stride: number } {
  const lengths = splitPacket(longest, segments);
  const offsets: number[] = [];
  let end = 0;
  for (const length of lengths) {
    offsets.push(end);
    end = Math.ceil((end + length + GUARD_BYTES) / GUARD_BYTES) * GUARD_BYTES;
  }
  return { lengths, offsets, stride: end };
}
