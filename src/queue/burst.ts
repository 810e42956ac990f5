import * as L from '../../assembly/abi/layout.js';
import { VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, show } from './check.js';

const U32 = 2 ** 32;
const U64 = 1n << 64n;

/**
 * Buffers to be added in one go: written as records into the engine's memory, without garbage.
 *
 * ```ts
 * burst.out(header, 12).in(page, 4096).end(token);   // one buffer of two segments
 * driver.addBurst(burst);                            // what did not fit stays in the burst
 * ```
 */
export class Burst {
  /** Most buffers and segments that wait here at a time. */
  readonly buffers: number;
  readonly segments: number;
  private readonly records: number;
  private readonly tokens: number;
  /** Word indices into the memory: first record not yet added, record of the open buffer, end, limit. */
  private head: number;
  private open: number;
  private tail: number;
  private readonly limit: number;
  private firstToken = 0;
  private count = 0;
  private bytes = 0;
  private writable = false;

  /** Use `driver.createBurst`. @internal */
  constructor(
    /** @internal */ readonly memory: LinearMemory,
    private readonly arena: Arena,
    buffers: number,
    segments: number,
  ) {
    this.buffers = integer(buffers, 'buffers', 1, 1 << 20);
    this.segments = integer(segments, 'segments', 1, 1 << 22);
    this.records = arena.alloc(segments * L.SEGMENT_BYTES, 16);
    try {
      this.tokens = arena.alloc(buffers * L.TOKEN_BYTES, 16);
    } catch (error) {
      arena.free(this.records);
      throw error;
    }
    this.head = this.open = this.tail = this.records >>> 2;
    this.limit = this.tail + segments * (L.SEGMENT_BYTES >>> 2);
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
    if (this.writable)
      return this.fail(
        'EINVAL',
        'a device-readable segment cannot follow a device-writable one: out first, then in',
      );
    this.segment(address, length, L.DESC_F_NEXT);
    return this;
  }

  /** Appends a device-writable segment to the open buffer. Parameters and errors as with `out`. */
  in(address: number | bigint, length: number): this {
    this.writable = true;
    this.segment(address, length, L.DESC_F_NEXT | L.DESC_F_WRITE);
    return this;
  }

  private segment(address: number | bigint, length: number, flags: number): void {
    const at = this.tail;
    if (at === this.limit)
      this.fail('ENOSPC', `the burst holds ${this.segments} segments: create a larger one`);
    if (length >>> 0 !== length)
      this.fail('EINVAL', `length must be an integer from 0 to 2^32-1, got ${show(length)}`);
    this.memory.fresh();
    const { u32 } = this.memory;
    if (typeof address === 'number' && address >>> 0 === address) {
      u32[at] = address;
      u32[at + 1] = 0;
    } else this.wide(at, address, length);
    u32[at + 2] = length;
    u32[at + 3] = flags;
    this.tail = at + 4;
    this.bytes += length;
  }

  /** An address that does not fit 32 bits, or is none. */
  private wide(at: number, address: number | bigint, length: number): void {
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
    this.memory.u32[at] = Number(exact & 0xffffffffn);
    this.memory.u32[at + 1] = Number(exact >> 32n);
  }

  /**
   * Completes the open buffer.
   * @param token comes back with the completion: 0 … 2^32-1
   * @throws VringError EINVAL for a buffer without segments, of more than 2^32 bytes or more than 32768
   *   segments (2.7.5.2), ENOSPC; the open buffer is dropped
   */
  end(token: number): void {
    const count = (this.tail - this.open) >>> 2;
    if (token >>> 0 !== token)
      this.fail('EINVAL', `token must be an integer from 0 to 2^32-1, got ${show(token)}`);
    if (count === 0) this.fail('EINVAL', 'a buffer needs at least one segment: call out or in before end');
    if (count > L.QUEUE_SIZE_MAX)
      this.fail('EINVAL', `a buffer of ${count} segments fits no queue, the limit is ${L.QUEUE_SIZE_MAX}`);
    if (this.bytes > U32)
      this.fail('EINVAL', `a buffer of ${this.bytes} bytes is above the limit of 2^32: split it`);
    if (this.firstToken + this.count === this.buffers)
      this.fail('ENOSPC', `the burst holds ${this.buffers} buffers: add it, or create a larger one`);
    this.memory.fresh();
    const { u32 } = this.memory;
    // The last record does not continue; the first one carries the number of segments.
    u32[this.tail - 1] = this.writable ? L.DESC_F_WRITE : 0;
    u32[this.open + 3] |= count << 16;
    u32[(this.tokens >>> 2) + this.firstToken + this.count] = token;
    this.count++;
    this.open = this.tail;
    this.bytes = 0;
    this.writable = false;
  }

  /** Drops everything that waits here. */
  clear(): void {
    this.head = this.open = this.tail = this.records >>> 2;
    this.firstToken = 0;
    this.count = 0;
    this.drop();
  }

  private drop(): void {
    this.tail = this.open;
    this.bytes = 0;
    this.writable = false;
  }

  private fail(code: 'EINVAL' | 'ENOSPC', message: string): never {
    this.drop();
    throw new VringError(code, message);
  }

  /** Addresses for the engine. @internal */
  get segmentsAddress(): number {
    return (this.head << 2) >>> 0;
  }

  /** @internal */
  get tokensAddress(): number {
    return this.tokens + this.firstToken * L.TOKEN_BYTES;
  }

  /** Number of segments of the first buffer that waits. @internal */
  get firstCount(): number {
    this.memory.fresh();
    return this.memory.u32[this.head + 3] >>> 16;
  }

  /** Takes the first `n` buffers away: they were added. @internal */
  shift(n: number): void {
    if (n === this.count && this.open === this.tail) {
      // The usual case: nothing is left, start over.
      this.head = this.open = this.tail = this.records >>> 2;
      this.firstToken = 0;
      this.count = 0;
      return;
    }
    for (let i = 0; i < n; i++) this.head += this.firstCount * (L.SEGMENT_BYTES >>> 2);
    this.firstToken += n;
    this.count -= n;
  }

  /** Gives the records back to the arena. The burst must not be used afterwards. */
  free(): void {
    this.arena.free(this.records);
    this.arena.free(this.tokens);
  }
}
