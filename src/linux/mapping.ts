import { fstatSync } from 'node:fs';
import { show, VringError } from '../errors.js';
import type { Host } from '../host.js';
import { integer } from '../queue/check.js';
import { failSystem, libc } from './libc.js';

const PROT_READ_WRITE = 3;
const MAP_SHARED = 0x01;
const MAP_PRIVATE = 0x02;
const MAP_FIXED = 0x10;
const MAP_ANONYMOUS = 0x20;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/** Smallest unit of a mapping. Files on huge pages have larger ones. */
export const PAGE = 4096;
const PAGE_MAX = 2 ** 30;

export interface MappingOptions {
  /** Bytes to show, 1 … 2^32. */
  length: number;
  /** First byte in the file; 0 if absent. It need not be aligned. */
  offset?: number;
}

/**
 * A part of a file, such as the memory of a virtual machine, that shows in a range of an engine's memory:
 * loads and stores there go to the file's own pages, which other processes may have mapped too. Nothing is
 * copied.
 *
 * The range comes from the engine's arena. Its owner must not make the file shorter as long as it is
 * mapped: touching a page that is gone ends the process (SIGBUS), as it does in every program that maps
 * memory of somebody else.
 */
export class Mapping {
  /** Where byte `offset` of the file lies, as a byte offset in the engine's memory. */
  readonly address: number;
  /** Bytes that show. */
  readonly length: number;
  private readonly engine: Host;
  private readonly block: number;
  /** Range laid over, whole pages. */
  private readonly start: number;
  private readonly bytes: number;
  private released = false;

  /**
   * Use `mapFile`.
   * @internal
   */
  constructor(engine: Host, fd: number, options: MappingOptions) {
    const memory = engine.memory;
    if (!(memory instanceof WebAssembly.Memory))
      throw new VringError(
        'EINVAL',
        `a file can be mapped into a WebAssembly.Memory, this engine has ${show(memory)}: pass loadEngine a WebAssembly.Memory`,
      );
    integer(fd, 'fd', 0, 2 ** 31 - 1);
    const length = integer(options.length, 'length', 1, 2 ** 32);
    const offset = integer(options.offset ?? 0, 'offset', 0, Number.MAX_SAFE_INTEGER);
    const page = pageSize(fd, offset, length);
    const before = offset % page;
    this.engine = engine;
    this.length = length;
    this.bytes = Math.ceil((before + length) / page) * page;
    const base = memoryBase(memory);
    // Only the system's address has to be aligned. That of the memory is, to small pages.
    const slack = page === PAGE ? 0 : page;
    this.block = engine.alloc(this.bytes + slack, PAGE);
    const misaligned = Number((base + BigInt(this.block)) % BigInt(page));
    this.start = this.block + (misaligned === 0 ? 0 : page - misaligned);
    this.address = this.start + before;
    try {
      lay(base + BigInt(this.start), this.bytes, MAP_SHARED, fd, offset - before);
    } catch (error) {
      engine.free(this.block);
      throw error;
    }
  }

  /**
   * Puts ordinary memory, all zero, in the place of the file and gives the range back to the arena. Whatever
   * uses the range, queues and buffers, must have been released before. May be called again.
   * @throws VringError ENOMEM, EIO if the system refuses; the range then stays mapped and taken
   */
  release(): void {
    if (this.released) return;
    const base = memoryBase(this.engine.memory as WebAssembly.Memory);
    lay(base + BigInt(this.start), this.bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    this.released = true;
    this.engine.free(this.block);
  }
}

/**
 * Maps a part of a file into an engine's memory, in place. The descriptor may be closed afterwards.
 *
 * Needs Linux and the package `koffi`. Other processes run at the same time as this one: queues on such
 * memory need an engine with `shared: true`.
 * @throws VringError ENOTSUP where koffi or the platform is missing; EINVAL for bad arguments or something
 *   that is no file; EFAULT for a range outside the file; ENOMEM if the arena or the system has no room
 */
export const mapFile = (engine: Host, fd: number, options: MappingOptions): Mapping =>
  new Mapping(engine, fd, options);

/** Page size of a file that is long enough for the range. */
function pageSize(fd: number, offset: number, length: number): number {
  let stat: import('node:fs').Stats;
  try {
    stat = fstatSync(fd);
  } catch (cause) {
    throw new VringError('EINVAL', `descriptor ${fd} is not open`, { cause });
  }
  if (!stat.isFile())
    throw new VringError(
      'EINVAL',
      `descriptor ${fd} is no file: memory is shared through memfd_create or a file in /dev/shm`,
    );
  if (offset + length > stat.size)
    throw new VringError(
      'EFAULT',
      `offset ${offset} + length ${length} is past the end of the file, which has ${stat.size} bytes`,
    );
  // Files on huge pages say so here; other file systems have small powers of two.
  const page = Math.max(PAGE, stat.blksize);
  if (page > PAGE_MAX || (page & (page - 1)) !== 0)
    throw new VringError('EINVAL', `the file has pages of ${page} bytes, which cannot be mapped here`);
  return page;
}

/** Where the system has the first byte of a memory. It never moves: the engine reserves room to grow. */
const memoryBase = (memory: WebAssembly.Memory): bigint => libc().addressOf(new Uint8Array(memory.buffer));

function lay(address: bigint, length: number, flags: number, fd: number, offset: number): void {
  const got = libc().mmap(address, length, PROT_READ_WRITE, flags | MAP_FIXED, fd, offset);
  if (got === MAP_FAILED) failSystem(`mapping ${length} bytes of the file at ${offset}`);
  if (got !== address) throw new Error(`invariant: asked for ${address}, mapped at ${got}`);
}
