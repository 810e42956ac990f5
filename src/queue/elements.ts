import * as L from '../../assembly/abi/layout.js';
import { show, VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, isU32 } from './check.js';
import { Records } from './records.js';

/**
 * Elements that a device popped: records in the engine's memory, read and completed without garbage.
 * Element `i` has `outCount(i)` readable pieces from index `first(i)` on and then `inCount(i)` writable
 * ones; `address(p)` and `length(p)` say where piece `p` lies in the engine's memory.
 */
export class Elements {
  /** Undefined once freed. @internal */
  memory: LinearMemory | undefined;
  readonly capacity: number;
  /** Most pieces of all elements of one burst together. */
  readonly pieces: number;
  /** How many the last `popBurst` brought. */
  count = 0;
  private readonly elementRecords: Records;
  private readonly pieceRecords: Records;

  /**
   * Use `device.createElements`.
   * @param pieces four for each element if absent, but enough for any chain of a queue of `size`
   * @internal
   */
  constructor(
    memory: LinearMemory,
    arena: Arena,
    capacity: number,
    pieces: number | undefined,
    size: number,
  ) {
    this.memory = memory;
    this.capacity = integer(capacity, 'capacity', 1, 1 << 20);
    this.pieces =
      pieces === undefined
        ? Math.min(L.PIECES_MAX, Math.max(size, capacity * 4))
        : integer(pieces, 'pieces', 1, L.PIECES_MAX);
    this.elementRecords = new Records(memory, arena, capacity * L.ELEMENT_BYTES);
    try {
      this.pieceRecords = new Records(memory, arena, this.pieces * L.PIECE_BYTES);
    } catch (error) {
      this.elementRecords.free();
      throw error;
    }
  }

  /** Head of the chain: what identifies the element until it is pushed. @param i 0 … count-1 */
  id(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.elementRecords.at(i * 4);
  }

  /** Index of the first piece of element `i`. */
  first(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.elementRecords.at(i * 4 + 1);
  }

  /** Number of device-readable pieces of element `i`. */
  outCount(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.elementRecords.at(i * 4 + 2) & 0xffff;
  }

  /** Number of device-writable pieces of element `i`. */
  inCount(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.elementRecords.at(i * 4 + 2) >>> 16;
  }

  /** Byte offset of piece `p` in the engine's memory. */
  address(p: number): number {
    if (!isU32(p) || p >= this.pieces) this.pieceRange(p);
    return this.pieceRecords.at(p * 2);
  }

  /** Bytes of piece `p`. */
  length(p: number): number {
    if (!isU32(p) || p >= this.pieces) this.pieceRange(p);
    return this.pieceRecords.at(p * 2 + 1);
  }

  /**
   * Says how many bytes were written to element `i`, from its first writable piece on. It is 0 after a pop.
   * @param bytes at most the element's writable length; `pushBurst` refuses more
   */
  setWritten(i: number, bytes: number): void {
    if (!isU32(i) || i >= this.count) this.range(i);
    if (!isU32(bytes))
      throw new VringError('EINVAL', `written must be an integer from 0 to 2^32-1, got ${show(bytes)}`);
    this.elementRecords.view[i * 4 + 3] = bytes;
  }

  /**
   * The element records, four words each: id, index of the first piece, number of out pieces (lower half)
   * and in pieces (upper half), bytes written. For the fastest loops. Valid until the memory grows.
   */
  get words(): Uint32Array {
    return this.elementRecords.view;
  }

  /** The piece records, two words each: address, length. Valid until the memory grows. */
  get pieceWords(): Uint32Array {
    return this.pieceRecords.view;
  }

  private range(i: number): never {
    throw new VringError('EINVAL', `element ${show(i)} does not exist, the last pop brought ${this.count}`);
  }

  private pieceRange(p: number): never {
    throw new VringError('EINVAL', `piece ${show(p)} does not exist, there is room for ${this.pieces}`);
  }

  /** @internal */
  get elementsAddress(): number {
    return this.elementRecords.address;
  }

  /** @internal */
  get piecesAddress(): number {
    return this.pieceRecords.address;
  }

  /** Gives the records back to the arena. The object must not be used afterwards. */
  free(): void {
    this.count = 0;
    this.memory = undefined;
    this.elementRecords.free();
    this.pieceRecords.free();
  }
}
