import { fsync, readv, writev } from 'node:fs';
import { VringError } from '../../errors.js';
import type { DeviceQueue, Element, Piece } from '../../queue/device-queue.js';
import type { Device, RunningQueue } from '../device.js';
import { RING_FEATURES } from './net.js';

const SECTOR = 512;
const HEADER = 16;
const CONFIG_BYTES = 60;
const ID_BYTES = 20;
const SEG_MAX = 126;

/** Feature bits of the block device (virtio 1.4, 5.2.3). */
enum BlkFeature {
  SEG_MAX = 2,
  RO = 5,
  FLUSH = 9,
}

/** Request types and states (5.2.6). */
enum Type {
  IN = 0,
  OUT = 1,
  FLUSH = 4,
  GET_ID = 8,
}
const OK = 0;
const IOERR = 1;
const UNSUPP = 2;

export interface BlkOptions {
  /** The driver may not write. */
  readOnly?: boolean;
}

export interface BlkCounts {
  reads: number;
  writes: number;
  flushes: number;
  /** Requests that ended with an error. */
  failed: number;
}

/** A block device on a file. Data goes between the file and the driver's memory without a copy of ours. */
export class Blk implements Device {
  readonly features: number[];
  readonly queues = 1;
  readonly config = new Uint8Array(CONFIG_BYTES);
  readonly counts: BlkCounts = { reads: 0, writes: 0, flushes: 0, failed: 0 };
  private readonly sectors: number;
  private readonly readOnly: boolean;
  private queue: DeviceQueue | undefined;
  private u8: Uint8Array = new Uint8Array(0);
  private pending = 0;
  private drained: (() => void) | undefined;
  private failure: unknown;

  /**
   * @param fd open file; stays the caller's
   * @param bytes its size; what is no whole sector at the end is left out
   */
  constructor(
    private readonly fd: number,
    bytes: number,
    options: BlkOptions = {},
  ) {
    this.sectors = Math.floor(bytes / SECTOR);
    if (!(this.sectors >= 1))
      throw new VringError(
        'EINVAL',
        `a disk needs at least one sector of ${SECTOR} bytes, got ${bytes} bytes`,
      );
    this.readOnly = options.readOnly ?? false;
    this.features = [...RING_FEATURES, BlkFeature.SEG_MAX, BlkFeature.FLUSH];
    if (this.readOnly) this.features.push(BlkFeature.RO);
    const view = new DataView(this.config.buffer);
    view.setBigUint64(0, BigInt(this.sectors), true);
    view.setUint32(12, SEG_MAX, true);
  }

  startQueue({ queue, engine }: RunningQueue): void {
    this.queue = queue;
    this.u8 = new Uint8Array(engine.buffer);
  }

  /** Waits for the file. */
  async stopQueue(): Promise<void> {
    if (this.pending > 0)
      await new Promise<void>((resolve) => {
        this.drained = resolve;
      });
    this.queue = undefined;
    this.failure = undefined;
  }

  service(): boolean {
    if (this.failure !== undefined) throw this.failure;
    const element = this.queue?.pop();
    if (element === undefined) return false;
    this.begin(element);
    return true;
  }

  arm(): boolean {
    return this.queue?.enableNotifications() ?? true;
  }

  private begin(element: Element): void {
    const header = this.gather(element.out, HEADER);
    const capacity = element.in.reduce((sum, { length }) => sum + length, 0);
    this.pending++;
    if (header === undefined || capacity === 0) {
      this.finish(element, header === undefined ? IOERR : undefined, 0, capacity);
      return;
    }
    const view = new DataView(header.buffer);
    const sector = view.getBigUint64(8, true);
    const type = view.getUint32(0, true);
    if (type === Type.IN || type === Type.OUT) {
      const pieces = type === Type.IN ? cut(element.in, 0, capacity - 1) : cut(element.out, HEADER);
      this.transfer(element, type, sector, pieces, capacity);
    } else if (type === Type.FLUSH)
      fsync(this.fd, (error) => {
        this.counts.flushes++;
        this.finish(element, error ? IOERR : OK, 0, capacity);
      });
    else if (type === Type.GET_ID && capacity > ID_BYTES) {
      const id = new Uint8Array(ID_BYTES);
      new TextEncoder().encodeInto('vring', id);
      let at = 0;
      for (const { address, length } of cut(element.in, 0, ID_BYTES)) {
        this.u8.set(id.subarray(at, at + length), address);
        at += length;
      }
      this.finish(element, OK, ID_BYTES, capacity);
    } else this.finish(element, UNSUPP, 0, capacity);
  }

  private transfer(element: Element, type: Type, sector: bigint, pieces: Piece[], capacity: number): void {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    const reads = type === Type.IN;
    const end = sector + BigInt(Math.ceil(bytes / SECTOR));
    if (bytes % SECTOR !== 0 || end > BigInt(this.sectors) || (this.readOnly && !reads)) {
      this.finish(element, IOERR, 0, capacity);
      return;
    }
    if (reads) this.counts.reads++;
    else this.counts.writes++;
    const views = pieces.map(({ address, length }) => this.u8.subarray(address, address + length));
    const done = (error: Error | null, moved: number): void => {
      const whole = error === null && moved === bytes;
      this.finish(element, whole ? OK : IOERR, whole && reads ? bytes : 0, capacity);
    };
    if (bytes === 0) done(null, 0);
    else (reads ? readv : writev)(this.fd, views, Number(sector) * SECTOR, done);
  }

  /** @param status undefined where there is no byte for it */
  private finish(element: Element, status: number | undefined, data: number, capacity: number): void {
    this.pending--;
    if (status !== OK) this.counts.failed++;
    try {
      const [last] = capacity === 0 ? [] : cut(element.in, capacity - 1);
      if (last !== undefined) this.u8[last.address] = status ?? IOERR;
      // Bytes count from the first on: a status behind bytes that were not written does not.
      this.queue?.push(element, last !== undefined && data === capacity - 1 ? capacity : 0);
    } catch (error) {
      // Told at the next turn: this may run in a callback of the file system.
      this.failure = error;
    }
    if (this.pending === 0) this.drained?.();
  }

  /** A copy of the first `length` bytes, or undefined if there are fewer. */
  private gather(pieces: readonly Piece[], length: number): Uint8Array | undefined {
    const bytes = new Uint8Array(length);
    let at = 0;
    for (const piece of cut(pieces, 0, length)) {
      bytes.set(this.u8.subarray(piece.address, piece.address + piece.length), at);
      at += piece.length;
    }
    return at === length ? bytes : undefined;
  }
}

/** The pieces of bytes `from` to `to`. */
function cut(pieces: readonly Piece[], from: number, to = Number.POSITIVE_INFINITY): Piece[] {
  const result: Piece[] = [];
  let at = 0;
  for (const { address, length } of pieces) {
    const start = Math.max(from - at, 0);
    const end = Math.min(to - at, length);
    if (start < end) result.push({ address: address + start, length: end - start });
    at += length;
  }
  return result;
}
