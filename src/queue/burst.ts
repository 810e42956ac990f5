import * as L from '../../assembly/abi/layout.js';
import { show, VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, isU32 } from './check.js';
import { Records } from './records.js';

const U32 = 2 ** 32;
const U64 = 1n << 64n;
const WORDS = L.SEGMENT_BYTES >>> 2;

/** Word 3 of the record of a buffer that is one device-readable (or device-writable) segment. */
const ONE_OUT = 1 << 16;
const ONE_IN = (1 << 16) | L.DESC_F_WRITE;

/**
 * Buffers to be added in one go: records in the engine's memory, written without garbage.
 *
 * ```ts
 * burst.out(header, 12).in(page, 4096).end(token);   // one buffer of two segments
 * driver.addBurst(burst);                            // what did not fit stays in the burst
 * ```
 *
 * The fastest way writes the records directly and says how many buffers they are:
 *
 * ```ts
 * const { words, tokens } = burst;
 * for (let i = 0; i < n; i++) {
 *   words[i * 4] = address[i];     // low 32 bits of the address
 *   words[i * 4 + 1] = 0;          // high 32 bits
 *   words[i * 4 + 2] = 2048;       // length
 *   words[i * 4 + 3] = Burst.IN;   // one device-writable segment
 *   tokens[i] = i;
 * }
 * burst.commit(n);
 * ```
 */
export class Burst {
  /** Word 3 of the record of a buffer that is one device-readable segment. */
  static readonly OUT = ONE_OUT;
  /** Word 3 of the record of a buffer that is one device-writable segment. */
  static readonly IN = ONE_IN;

  /** Undefined once freed. @internal */
  memory: LinearMemory | undefined;
  /** Most buffers that wait here at a time. */
  readonly buffers: number;
  /** Most segments of all of them. */
  readonly segments: number;
  private readonly segmentRecords: Records;
  private readonly tokenRecords: Records;
  /** Record indices: first one not yet added, first of the open buffer, end of it. */
  private head = 0;
  private open = 0;
  private tail = 0;
  private firstToken = 0;
  private count = 0;
  /** Flags of the open buffer's last segment. */
  private last = 0;

  /** Use `driver.createBurst`. @internal */
  constructor(memory: LinearMemory, arena: Arena, buffers: number, segments?: number) {
    this.memory = memory;
    this.buffers = integer(buffers, 'buffers', 1, 1 << 20);
    this.segments = segments === undefined ? buffers * 4 : integer(segments, 'segments', 1, 1 << 22);
    this.segmentRecords = new Records(memory, arena, this.segments * L.SEGMENT_BYTES);
    try {
      this.tokenRecords = new Records(memory, arena, buffers * L.TOKEN_BYTES);
    } catch (error) {
      this.segmentRecords.free();
      throw error;
    }
  }

  /** Complete buffers that wait to be added. */
  get pending(): number {
    return this.count;
  }

  /**
   * Appends a device-readable segment to the open buffer.
   * @param address what the device is to use: 0 … 2^64-1, a bigint above 2^53-1
   * @param length bytes, 0 … 2^32-1
   * @throws VringError EINVAL, ENOSPC; the open buffer is dropped
   */
  out(address: number | bigint, length: number): this {
    if (this.last !== 0) this.misplaced();
    return this.append(address, length, 0);
  }

  /** Appends a device-writable segment to the open buffer. Parameters and errors as with `out`. */
  in(address: number | bigint, length: number): this {
    this.last = L.DESC_F_WRITE;
    return this.append(address, length, L.DESC_F_WRITE);
  }

  // What is called for each record is kept short, with errors apart, so that it is inlined into the caller's loop.

  private append(address: number | bigint, length: number, write: number): this {
    const at = this.tail;
    if (at === this.segments || !isU32(length)) this.unfit(length);
    let { words } = this.segmentRecords;
    if (words.length === 0) words = this.segmentRecords.renew();
    const word = at * WORDS;
    if (isU32(address)) {
      words[word] = address;
      words[word + 1] = 0;
    } else this.wide(words, word, address, length);
    words[word + 2] = length;
    // Complete if no segment follows.
    if (at === this.open) words[word + 3] = write | ONE_OUT;
    else {
      words[word + 3] = write;
      words[word - 1] |= L.DESC_F_NEXT;
    }
    this.tail = at + 1;
    return this;
  }

  private misplaced(): never {
    this.fail('EINVAL', 'a device-readable segment cannot follow a device-writable one: out first, then in');
  }

  private unfit(length: unknown): never {
    if (this.tail === this.segments)
      this.fail('ENOSPC', `the burst holds ${this.segments} segments: create a larger one`);
    this.fail('EINVAL', `length must be an integer from 0 to 2^32-1, got ${show(length)}`);
  }

  /** An address that does not fit 32 bits, or is none. */
  private wide(view: Uint32Array, word: number, address: number | bigint, length: number): void {
    const valid =
      typeof address === 'bigint'
        ? address >= 0n && address < U64
        : Number.isSafeInteger(address) && address >= 0;
    if (!valid)
      this.fail(
        'EINVAL',
        `address must be an integer from 0 to 2^64-1 (a bigint above 2^53-1), got ${show(address)}`,
      );
    const exact = BigInt(address);
    if (exact + BigInt(length) > U64) this.fail('EINVAL', `address ${exact} + length ${length} wraps 2^64`);
    view[word] = Number(exact & 0xffffffffn);
    view[word + 1] = Number(exact >> 32n);
  }

  /**
   * Completes the open buffer.
   * @param token comes back with the completion: 0 … 2^32-1
   * @throws VringError EINVAL for a buffer without segments, of more than 2^32 bytes (2.7.5.2) or of more
   *   than 32768 segments, ENOSPC; the open buffer is dropped
   */
  end(token: number): void {
    const { open, tail } = this;
    const segments = tail - open;
    const index = this.firstToken + this.count;
    if (segments === 0 || index === this.buffers || !isU32(token)) this.incomplete(token);
    if (segments !== 1) this.seal(segments);
    this.tokenRecords.view[index] = token;
    this.count++;
    this.open = tail;
    this.last = 0;
  }

  private incomplete(token: unknown): never {
    if (!isU32(token)) this.fail('EINVAL', `token must be an integer from 0 to 2^32-1, got ${show(token)}`);
    if (this.tail === this.open)
      this.fail('EINVAL', 'a buffer needs at least one segment: call out or in before end');
    this.fail('ENOSPC', `the burst holds ${this.buffers} buffers: add it, or create a larger one`);
  }

  /** Completes the records of a buffer of several segments. */
  private seal(segments: number): void {
    const { view } = this.segmentRecords;
    if (segments > L.QUEUE_SIZE_MAX)
      this.fail('EINVAL', `a buffer of ${segments} segments fits no queue, the limit is ${L.QUEUE_SIZE_MAX}`);
    let bytes = 0;
    for (let at = this.open; at < this.tail; at++) bytes += view[at * WORDS + 2];
    if (bytes > U32) this.fail('EINVAL', `a buffer of ${bytes} bytes is above the limit of 2^32: split it`);
    view[this.open * WORDS + 3] += (segments - 1) << 16;
  }

  /**
   * The segment records, four words each: address (low, high), length, flags with the number of the buffer's
   * segments in the upper half (first record of a buffer only). Valid until the memory grows.
   */
  get words(): Uint32Array {
    return this.segmentRecords.view;
  }

  /** The tokens, one for each buffer. Valid until the memory grows. */
  get tokens(): Uint32Array {
    return this.tokenRecords.view;
  }

  /**
   * Says that the first `n` buffers were written to `words` and `tokens`. The burst must be empty.
   * @throws VringError EINVAL for a record that `out`, `in` and `end` would not have written
   */
  commit(n: number): void {
    if (this.count !== 0 || this.tail !== this.open)
      throw new VringError(
        'EINVAL',
        `commit needs an empty burst, ${this.count} buffers wait: add or clear them`,
      );
    integer(n, 'n', 0, this.buffers);
    const view = this.segmentRecords.view;
    const { segments } = this;
    let at = 0;
    for (let i = 0; i < n; i++) {
      if (at === segments) this.bad(i, at, 'is missing');
      const word = view[at * WORDS + 3];
      at += word === ONE_OUT || word === ONE_IN ? 1 : this.check(view, i, at);
    }
    this.head = 0;
    this.open = this.tail = at;
    this.firstToken = 0;
    this.count = n;
  }

  /** Checks the records of buffer `i` from `first` on; returns how many they are. */
  private check(view: Uint32Array, i: number, first: number): number {
    const segments = view[first * WORDS + 3] >>> 16;
    if (segments === 0) this.bad(i, first, 'has no number of segments');
    if (segments > this.segments - first) this.bad(i, first, `has ${segments} segments, past the end`);
    let write = 0;
    let bytes = 0;
    for (let k = 0; k < segments; k++) {
      const at = first + k;
      const word = view[at * WORDS + 3];
      const flags = k === 0 ? word & 0xffff : word;
      const next = k === segments - 1 ? 0 : L.DESC_F_NEXT;
      if ((flags & ~L.DESC_F_WRITE) !== next) this.bad(i, at, `has flags ${flags}`);
      if ((flags & L.DESC_F_WRITE) < write) this.bad(i, at, 'is readable after a writable one');
      write = flags & L.DESC_F_WRITE;
      bytes += view[at * WORDS + 2];
    }
    if (segments > L.QUEUE_SIZE_MAX || bytes > U32)
      this.bad(i, first, `has ${segments} segments of ${bytes} bytes in all`);
    return segments;
  }

  private bad(i: number, at: number, what: string): never {
    throw new VringError('EINVAL', `record ${at} of buffer ${i} ${what}; nothing was committed`);
  }

  /** Drops everything that waits here. */
  clear(): void {
    this.head = this.open = this.tail = 0;
    this.firstToken = 0;
    this.count = 0;
    this.last = 0;
  }

  private fail(code: 'EINVAL' | 'ENOSPC', message: string): never {
    this.tail = this.open;
    this.last = 0;
    throw new VringError(code, message);
  }

  /** Address of the first segment record that waits. @internal */
  get segmentsAddress(): number {
    return this.segmentRecords.address + this.head * L.SEGMENT_BYTES;
  }

  /** @internal */
  get tokensAddress(): number {
    return this.tokenRecords.address + this.firstToken * L.TOKEN_BYTES;
  }

  /** Number of segments of the first buffer that waits. @internal */
  get firstCount(): number {
    return this.segmentRecords.view[this.head * WORDS + 3] >>> 16;
  }

  /** Takes the first `n` buffers away: they were added. @internal */
  shift(n: number): void {
    if (n === this.count && this.open === this.tail) {
      // The usual case: nothing is left, start over.
      this.clear();
      return;
    }
    for (let i = 0; i < n; i++) this.head += this.firstCount;
    this.firstToken += n;
    this.count -= n;
  }

  /** Gives the records back to the arena. The burst must not be used afterwards. */
  free(): void {
    this.clear();
    this.memory = undefined;
    this.segmentRecords.free();
    this.tokenRecords.free();
  }
}
