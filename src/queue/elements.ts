import * as L from '../../assembly/abi/layout.js';
import { VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, show } from './check.js';

/**
 * Elements that a device popped: records in the engine's memory, read and completed without garbage.
 * Element `i` has `outCount(i)` readable pieces from index `first(i)` on and then `inCount(i)` writable
 * ones; `address(p)` and `length(p)` say where piece `p` lies in the engine's memory.
 */
export class Elements {
  readonly capacity: number;
  /** Most pieces of all elements of one burst together. */
  readonly pieces: number;
  /** How many the last `popBurst` brought. */
  count = 0;
  /** @internal */
  readonly elementsAddress: number;
  /** @internal */
  readonly piecesAddress: number;

  /** Use `device.createElements`. @internal */
  constructor(
    /** @internal */ readonly memory: LinearMemory,
    private readonly arena: Arena,
    capacity: number,
    pieces: number,
  ) {
    this.capacity = integer(capacity, 'capacity', 1, 1 << 20);
    this.pieces = integer(pieces, 'pieces', 1, L.PIECES_MAX);
    this.elementsAddress = arena.alloc(capacity * L.ELEMENT_BYTES, 16);
    try {
      this.piecesAddress = arena.alloc(pieces * L.PIECE_BYTES, 16);
    } catch (error) {
      arena.free(this.elementsAddress);
      throw error;
    }
  }

  /** Head of the chain: what identifies the element until it is pushed. @param i 0 … count-1 */
  id(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i)];
  }

  /** Index of the first piece of element `i`. */
  first(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i) + 1];
  }

  /** Number of device-readable pieces of element `i`. */
  outCount(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i) + 2] & 0xffff;
  }

  /** Number of device-writable pieces of element `i`. */
  inCount(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i) + 2] >>> 16;
  }

  /** Byte offset of piece `p` in the engine's memory. */
  address(p: number): number {
    this.memory.fresh();
    return this.memory.u32[this.piece(p)];
  }

  /** Bytes of piece `p`. */
  length(p: number): number {
    this.memory.fresh();
    return this.memory.u32[this.piece(p) + 1];
  }

  /**
   * Says how many bytes were written to element `i`, from its first writable piece on. It is 0 after a pop.
   * @param bytes at most the element's writable length; `pushBurst` refuses more
   */
  setWritten(i: number, bytes: number): void {
    if (bytes >>> 0 !== bytes)
      throw new VringError('EINVAL', `written must be an integer from 0 to 2^32-1, got ${show(bytes)}`);
    this.memory.fresh();
    this.memory.u32[this.record(i) + 3] = bytes;
  }

  private record(i: number): number {
    if (i >>> 0 >= this.count)
      throw new VringError('EINVAL', `element ${show(i)} does not exist, the last pop brought ${this.count}`);
    return (this.elementsAddress >>> 2) + i * (L.ELEMENT_BYTES >>> 2);
  }

  private piece(p: number): number {
    if (p >>> 0 >= this.pieces)
      throw new VringError('EINVAL', `piece ${show(p)} does not exist, there is room for ${this.pieces}`);
    return (this.piecesAddress >>> 2) + p * (L.PIECE_BYTES >>> 2);
  }

  /** Gives the records back to the arena. The object must not be used afterwards. */
  free(): void {
    this.arena.free(this.elementsAddress);
    this.arena.free(this.piecesAddress);
  }
}
