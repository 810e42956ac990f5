import type { Host } from '../../host.js';
import type { Elements } from '../../queue/elements.js';
import { NET_HEADER, netHeader } from './net.js';

/** Copies within a memory that other processes write to. What it copies has been checked to lie in it. */
export class Copier {
  readonly u8: Uint8Array;
  readonly u32: Uint32Array;
  private readonly header = new Uint8Array(NET_HEADER);

  constructor(private readonly engine: Host) {
    this.u8 = new Uint8Array(engine.buffer);
    this.u32 = new Uint32Array(engine.buffer);
  }

  copy(to: number, from: number, length: number): void {
    this.engine.copy(to, from, length);
  }

  /** Writes a network header at one address. */
  netHeader(to: number, buffers: number): void {
    if ((to & 3) === 0) {
      const { u32 } = this;
      const word = to >>> 2;
      u32[word] = 0;
      u32[word + 1] = 0;
      u32[word + 2] = buffers << 16;
      return;
    }
    this.u8.set(netHeader(this.header, buffers), to);
  }
}

/** Walks through the pieces of one side of an element. */
export class PieceCursor {
  private piece: number;
  private at = 0;
  /** Bytes from here to the end. */
  left = 0;

  constructor(
    private readonly elements: Elements,
    first: number,
    count: number,
  ) {
    this.piece = first;
    for (let p = 0; p < count; p++) this.left += elements.length(first + p);
  }

  /** What of the next `length` bytes lies in one piece. */
  private run(length: number): number {
    while (this.at === this.elements.length(this.piece)) {
      this.piece++;
      this.at = 0;
    }
    return Math.min(length, this.elements.length(this.piece) - this.at);
  }

  private get address(): number {
    return this.elements.address(this.piece) + this.at;
  }

  private advance(length: number): void {
    this.at += length;
    this.left -= length;
  }

  /** @param length at most `left`, as in the others */
  skip(length: number): void {
    for (let rest = length; rest > 0; ) {
      const run = this.run(rest);
      this.advance(run);
      rest -= run;
    }
  }

  /** Copies `length` bytes from another cursor. */
  copy(copier: Copier, from: PieceCursor, length: number): void {
    for (let rest = length; rest > 0; ) {
      const run = Math.min(this.run(rest), from.run(rest));
      copier.copy(this.address, from.address, run);
      this.advance(run);
      from.advance(run);
      rest -= run;
    }
  }

  /** Copies bytes of ours. */
  write(u8: Uint8Array, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      const run = this.run(bytes.length - done);
      u8.set(bytes.subarray(done, done + run), this.address);
      this.advance(run);
      done += run;
    }
  }
}

/** The device-readable pieces of element `i`. */
export const readable = (elements: Elements, i: number): PieceCursor =>
  new PieceCursor(elements, elements.first(i), elements.outCount(i));

/** The device-writable pieces of element `i`. */
export const writable = (elements: Elements, i: number): PieceCursor =>
  new PieceCursor(elements, elements.first(i) + elements.outCount(i), elements.inCount(i));
