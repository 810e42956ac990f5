import { show, VringError } from './errors.js';

/** A memory that queues can live in. */
export type MemoryLike = WebAssembly.Memory | ArrayBuffer | SharedArrayBuffer;

const PAGE = 65536;

/** Largest number of bytes that 32-bit addresses reach. */
export const ADDRESS_SPACE = 2 ** 32;

const isWasmMemory = (memory: unknown): memory is WebAssembly.Memory =>
  typeof WebAssembly === 'object' && memory instanceof WebAssembly.Memory;

const isShared = (buffer: unknown): buffer is SharedArrayBuffer =>
  typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer;

/** True for whatever `loadEngine` takes as `memory`. */
export const isMemoryLike = (memory: unknown): memory is MemoryLike =>
  isWasmMemory(memory) || memory instanceof ArrayBuffer || isShared(memory);

/**
 * Typed views of a memory. An unshared WebAssembly memory that grows detaches its buffer: a detached
 * view has length 0, which costs nothing to notice. So whoever is about to use a view of a memory that
 * may have grown since calls `fresh()` first.
 */
export class LinearMemory {
  readonly source: MemoryLike;
  readonly shared: boolean;
  u8!: Uint8Array;
  u16!: Uint16Array;
  u32!: Uint32Array;

  constructor(source: MemoryLike) {
    this.source = source;
    this.shared = isShared(isWasmMemory(source) ? source.buffer : source);
    this.derive();
  }

  get buffer(): ArrayBuffer | SharedArrayBuffer {
    return isWasmMemory(this.source) ? this.source.buffer : this.source;
  }

  /** The WebAssembly memory, or undefined for a plain buffer. */
  get wasm(): WebAssembly.Memory | undefined {
    return isWasmMemory(this.source) ? this.source : undefined;
  }

  /** Derives the views again if the memory has grown since. True if it had. */
  fresh(): boolean {
    if (this.u32.length !== 0) return false;
    this.derive();
    return true;
  }

  /**
   * Takes in all of a memory that may have grown. A shared memory that grows leaves the old views as they
   * are, too short: so this comes before addresses are checked against the size of the memory.
   * @returns bytes in reach
   */
  extend(): number {
    if (this.buffer.byteLength !== this.u8.length) this.derive();
    return this.u8.length;
  }

  private derive(): void {
    const { buffer } = this;
    if (buffer.byteLength === 0 && !this.wasm)
      throw new VringError('EINVAL', 'the memory is empty, or its buffer was transferred away');
    // Not `>>>`: a memory may have 2^32 bytes, and a plain buffer more, out of reach.
    const bytes = Math.min(buffer.byteLength, ADDRESS_SPACE);
    this.u8 = new Uint8Array(buffer, 0, bytes);
    this.u16 = new Uint16Array(buffer, 0, Math.floor(bytes / 2));
    this.u32 = new Uint32Array(buffer, 0, Math.floor(bytes / 4));
  }
}

/** Makes a memory of at least `size` bytes: a WebAssembly one where the platform has it. */
export function createMemory(size: number, shared: boolean, plain: boolean): MemoryLike {
  const pages = Math.ceil(size / PAGE);
  try {
    if (plain || typeof WebAssembly !== 'object') {
      return shared ? new SharedArrayBuffer(pages * PAGE) : new ArrayBuffer(pages * PAGE);
    }
    return shared
      ? new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
      : new WebAssembly.Memory({ initial: pages });
  } catch (cause) {
    throw new VringError('ENOMEM', `the platform gave no memory of ${size} bytes: pass a smaller size`, {
      cause,
    });
  }
}

/** Grows a WebAssembly memory by at least `size` bytes and returns where the new bytes start. */
export function growMemory(memory: WebAssembly.Memory, size: number): number {
  try {
    return memory.grow(Math.ceil(size / PAGE)) * PAGE;
  } catch (cause) {
    throw new VringError(
      'ENOMEM',
      `the memory of ${memory.buffer.byteLength} bytes cannot grow by ${size}: pass base and size of a range in it that vring may use`,
      { cause },
    );
  }
}

/**
 * Allocator of the range that the host gave to vring. First fit over a sorted list of free ranges, kept
 * on the JavaScript heap, where no peer can reach it. Meant for rings and buffer pools, not for hot paths.
 */
export class Arena {
  readonly base: number;
  readonly end: number;
  private readonly free_: { start: number; end: number }[];
  private readonly taken = new Map<number, number>();

  /** @param base first byte of the range; address 0 is never handed out */
  constructor(base: number, size: number) {
    this.base = base;
    this.end = base + size;
    this.free_ = [{ start: Math.max(base, 16), end: this.end }];
  }

  /** Bytes handed out and not given back. */
  get used(): number {
    let sum = 0;
    for (const size of this.taken.values()) sum += size;
    return sum;
  }

  /**
   * Takes `size` bytes at a multiple of `align` (a power of two). The bytes are not cleared.
   * @throws VringError EINVAL, ENOMEM
   */
  alloc(size: number, align = 16): number {
    if (!Number.isInteger(size) || size <= 0 || size > ADDRESS_SPACE)
      throw new VringError('EINVAL', `size must be a positive number of bytes, got ${show(size)}`);
    if (!Number.isInteger(align) || align <= 0 || align > 2 ** 30 || (align & (align - 1)) !== 0)
      throw new VringError('EINVAL', `align must be a power of two, got ${show(align)}`);
    const list = this.free_;
    for (let i = 0; i < list.length; i++) {
      const range = list[i];
      const start = Math.ceil(range.start / align) * align;
      const end = start + size;
      if (end > range.end) continue;
      const rest = [];
      if (start > range.start) rest.push({ start: range.start, end: start });
      if (end < range.end) rest.push({ start: end, end: range.end });
      list.splice(i, 1, ...rest);
      this.taken.set(start, size);
      return start;
    }
    throw new VringError(
      'ENOMEM',
      `no ${size} bytes left in the arena of ${this.end - this.base} bytes (${this.used} in use): pass a larger size to loadEngine`,
    );
  }

  /**
   * Gives back what `alloc` returned.
   * @throws VringError EINVAL if `address` is not in use (never was, or was freed before)
   */
  free(address: number): void {
    const size = this.taken.get(address);
    if (size === undefined)
      throw new VringError(
        'EINVAL',
        `address ${show(address)} is not allocated: freed twice, or never handed out`,
      );
    this.taken.delete(address);
    const list = this.free_;
    let i = 0;
    while (i < list.length && list[i].start < address) i++;
    const range = { start: address, end: address + size };
    const before = list[i - 1];
    const after = list[i];
    if (after && range.end === after.start) {
      range.end = after.end;
      list.splice(i, 1);
    }
    if (before && before.end === range.start) before.end = range.end;
    else list.splice(i, 0, range);
  }
}
