import type { Engine } from './engine/engine.js';
import { show, VringError } from './errors.js';
import {
  ADDRESS_SPACE,
  Arena,
  createMemory,
  growMemory,
  isMemoryLike,
  LinearMemory,
  type MemoryLike,
} from './memory.js';
import { integer } from './queue/check.js';
import { DeviceQueue, type DeviceQueueOptions } from './queue/device-queue.js';
import { DriverQueue, type DriverQueueOptions } from './queue/driver-queue.js';

/** Where an engine's memory comes from and which part of it is vring's. */
export interface MemoryOptions {
  /**
   * Memory to work on; made if absent. The WebAssembly engine needs a `WebAssembly.Memory`, the TypeScript
   * one takes plain buffers too.
   */
  memory?: MemoryLike;
  /**
   * First byte of the range (the arena) that vring may use for rings and its own state. If absent, a given
   * WebAssembly memory is grown by `size` and the new bytes are used; a plain buffer is used from byte 0 on.
   */
  base?: number;
  /** Bytes of the arena: 16 MiB if absent, or with `base` or a plain buffer what is left of the memory. */
  size?: number;
  /** Makes a shared memory, for Workers. Needed only where `memory` is absent. */
  shared?: boolean;
}

const DEFAULT_SIZE = 16 * 1024 * 1024;

/** Makes or takes the memory and the arena that the options ask for. */
export function prepareMemory(
  options: MemoryOptions,
  plain: boolean,
): { memory: LinearMemory; arena: Arena } {
  const { memory: given, base, size, shared } = options;
  if (given !== undefined && !isMemoryLike(given))
    throw new VringError(
      'EINVAL',
      `memory must be a WebAssembly.Memory, ArrayBuffer or SharedArrayBuffer, got ${show(given)}`,
    );
  if (base !== undefined) integer(base, 'base', 0, ADDRESS_SPACE - 1);
  if (size !== undefined) integer(size, 'size', 1, ADDRESS_SPACE);
  if (shared !== undefined && typeof shared !== 'boolean')
    throw new VringError('EINVAL', `shared must be a boolean, got ${show(shared)}`);
  if (given === undefined) {
    const start = base ?? 0;
    const bytes = size ?? DEFAULT_SIZE;
    if (start + bytes > ADDRESS_SPACE)
      throw new VringError('EINVAL', `base ${start} + size ${bytes} is above 2^32: addresses have 32 bits`);
    const memory = new LinearMemory(createMemory(start + bytes, shared ?? false, plain));
    return { memory, arena: new Arena(start, bytes) };
  }
  const memory = new LinearMemory(given);
  if (shared !== undefined && shared !== memory.shared)
    throw new VringError(
      'EINVAL',
      `shared is ${shared}, but the memory is ${memory.shared ? '' : 'not '}shared: leave it out`,
    );
  if (base === undefined && memory.wasm) {
    const bytes = size ?? DEFAULT_SIZE;
    const start = growMemory(memory.wasm, bytes);
    return { memory: new LinearMemory(given), arena: new Arena(start, bytes) };
  }
  const start = base ?? 0;
  const { byteLength } = memory.buffer;
  const bytes = size ?? byteLength - start;
  if (bytes <= 0 || start + bytes > Math.min(byteLength, ADDRESS_SPACE))
    throw new VringError('EINVAL', `base ${start} + size ${bytes} leaves the memory of ${byteLength} bytes`);
  return { memory, arena: new Arena(start, bytes) };
}

/** An engine on a memory: what makes queues. */
export class Host {
  /** Which engine runs. */
  readonly name: 'wasm' | 'typescript';
  /** Why this one was chosen. */
  readonly reason: string;

  /** Use `loadEngine`. @internal */
  constructor(
    private readonly engine: Engine,
    private readonly linear: LinearMemory,
    private readonly arena: Arena,
    reason: string,
  ) {
    this.name = engine.name;
    this.reason = reason;
  }

  /** The memory that everything lies in. */
  get memory(): MemoryLike {
    return this.linear.source;
  }

  /** Its bytes. An unshared WebAssembly memory that grows gets a new buffer: do not keep it. */
  get buffer(): ArrayBuffer | SharedArrayBuffer {
    return this.linear.buffer;
  }

  /** Bytes of the arena that are handed out. */
  get used(): number {
    return this.arena.used;
  }

  /**
   * Takes memory from the arena, for buffers say. It is not cleared.
   * @param align a power of two; 16 if absent
   * @returns a byte offset in the memory
   * @throws VringError EINVAL, ENOMEM
   */
  alloc(size: number, align = 16): number {
    return this.arena.alloc(size, align);
  }

  /** Gives back what `alloc` returned. @throws VringError EINVAL */
  free(address: number): void {
    this.arena.free(address);
  }

  /**
   * Copies `length` bytes within the memory, as if at once: for device programs. Both ranges lie in the memory,
   * as the pieces of an element do. Faster than `copyWithin` in shared memory.
   * @throws RangeError or WebAssembly.RuntimeError for what does not lie in the memory, or nothing is copied
   */
  copy(to: number, from: number, length: number): void {
    this.engine.copy(to, from, length);
  }

  /** Makes the driver side of a queue, with a new ring. @throws VringError EINVAL, EFAULT, ENOMEM, ENOTSUP */
  driverQueue(options: DriverQueueOptions): DriverQueue {
    return new DriverQueue(this.engine, this.linear, this.arena, options);
  }

  /** Makes the device side of a queue, on a driver's ring. @throws VringError EINVAL, EFAULT, ENOMEM, ENOTSUP */
  deviceQueue(options: DeviceQueueOptions): DeviceQueue {
    return new DeviceQueue(this.engine, this.linear, this.arena, options);
  }
}
