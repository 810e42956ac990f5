import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Segment } from '../../../src/index.js';
import type { Random } from '../../fuzz/prng.js';
import type { Load } from '../engines.js';
import { Guest, type GuestQueue, type Machine } from './guest.js';

const SECTOR = 512;
const T_IN = 0;
const T_OUT = 1;
const HEADER_BYTES = 16;
const STATUS_OK = 0;

/** Sectors that one slot reads and writes: nobody else does, so the order between slots does not matter. */
const SLOT_SECTORS = 8;
const SLOTS = 64;
/** Header, at most three pieces of data, status. */
export const SEGMENTS_MAX = 5;
const SLOT_BYTES = HEADER_BYTES + SLOT_SECTORS * SECTOR + 16;

const SLOT = 4;

/** A QEMU with one block device. */
const machine = (image: string): Machine => ({
  options: [
    ['-blockdev', `driver=file,node-name=f0,filename=${image},cache.no-flush=on`],
    ['-device', `virtio-blk-pci,drive=f0,addr=${SLOT},disable-legacy=on,romfile=,packed=on`],
  ].flat(),
  slot: SLOT,
});

/** Runs `act` with a QEMU and its disk. */
export async function withDisk(
  load: Load,
  random: Random,
  act: (guest: Guest, disk: Disk) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync('/dev/shm/vring-disk-');
  try {
    const disk = new Disk(join(folder, 'image'), random);
    await Guest.with(load, machine(disk.path), (guest) => act(guest, disk));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Request {
  write: boolean;
  sector: number;
  bytes: number;
}

/** A disk image and what must be in it. */
export class Disk {
  readonly sectors = SLOTS * SLOT_SECTORS;
  readonly expected: Uint8Array;

  constructor(
    readonly path: string,
    readonly random: Random,
  ) {
    this.expected = new Uint8Array(this.sectors * SECTOR);
    this.scribble(0, this.expected.length);
    writeFileSync(path, this.expected);
  }

  /** Fills a range with something new. */
  scribble(from: number, to: number): void {
    for (let at = from; at < to; at++) this.expected[at] = this.random.u32() >>> 7;
  }

  /** Sees that the image file is as it should be. */
  check(): void {
    expect(Buffer.compare(readFileSync(this.path), this.expected), 'image against what was written').to.equal(
      0,
    );
  }
}

/** Reads and writes a disk through a queue; the token of a request is its slot. */
export class DiskTraffic {
  /** Requests that came back, and were right. */
  done = 0;
  private readonly slots: (Request | undefined)[];
  private readonly buffers: number;
  private readonly completions;

  constructor(
    private readonly guest: Guest,
    private readonly queue: GuestQueue,
    private readonly disk: Disk,
  ) {
    this.slots = new Array(SLOTS).fill(undefined);
    this.buffers = guest.ram.alloc(SLOTS * SLOT_BYTES);
    this.completions = queue.driver.createCompletions(32);
  }

  /** Slots with a request in flight. */
  get inFlight(): number[] {
    return this.slots.flatMap((request, slot) => (request === undefined ? [] : slot));
  }

  /** Makes `count` requests and sees that all of them come back; `until` may end it earlier. */
  async run(count: number, until: () => boolean = () => false): Promise<void> {
    const end = this.done + count;
    let left = count;
    while (this.done < end && !until()) {
      while (left > 0 && this.submit()) left--;
      await this.queue.kick();
      if (this.take() === 0) await this.queue.idle();
    }
  }

  /** Makes one request at a time, and looks for it only when its interrupt has come. */
  async runByInterrupt(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      this.queue.interrupt.clear();
      expect(this.queue.driver.enableCallbacks(), 'nothing is left to take').to.equal(true);
      expect(this.submit()).to.equal(true);
      await this.queue.kick();
      await this.queue.interrupt.wait();
      expect(this.take()).to.equal(1);
    }
  }

  /** Makes one request available. False if there is no room for it. */
  submit(): boolean {
    const { random } = this.disk;
    const free = this.slots.indexOf(undefined);
    if (free < 0) return false;
    const count = 1 + random.below(SLOT_SECTORS);
    const first = free * SLOT_SECTORS + random.below(SLOT_SECTORS - count + 1);
    const request = { write: random.once(2), sector: first, bytes: count * SECTOR };
    if (!this.add(free, request)) return false;
    this.slots[free] = request;
    return true;
  }

  private add(slot: number, { write, sector, bytes }: Request): boolean {
    const { guest, disk } = this;
    const header = this.buffers + slot * SLOT_BYTES;
    const data = header + HEADER_BYTES;
    const status = data + bytes;
    const view = new DataView(guest.engine.buffer);
    view.setUint32(header, write ? T_OUT : T_IN, true);
    view.setUint32(header + 4, 0, true);
    view.setBigUint64(header + 8, BigInt(sector), true);
    const { bytes: memory } = guest;
    memory[status] = 0xff;
    const start = sector * SECTOR;
    const before = disk.expected.slice(start, start + bytes);
    if (write) {
      disk.scribble(start, start + bytes);
      memory.set(disk.expected.subarray(start, start + bytes), data);
    } else memory.fill(0xee, data, data + bytes);
    const out = [guest.segment(header, HEADER_BYTES)];
    const in_ = [guest.segment(status, 1)];
    const parts = this.cut(data, bytes);
    const added = write
      ? this.queue.driver.add([...out, ...parts], in_, slot)
      : this.queue.driver.add(out, [...parts, ...in_], slot);
    if (!added) disk.expected.set(before, start);
    return added;
  }

  /** One to three pieces, of any length. */
  private cut(address: number, bytes: number): Segment[] {
    const { random } = this.disk;
    const cuts = [0, bytes];
    for (let more = random.below(3); more > 0; more--) cuts.push(1 + random.below(bytes - 1));
    const sorted = [...new Set(cuts)].sort((a, b) => a - b);
    return sorted.slice(1).map((end, i) => this.guest.segment(address + sorted[i], end - sorted[i]));
  }

  /** Takes what has come back. @returns how many requests */
  take(): number {
    const got = this.queue.driver.getBurst(this.completions);
    for (let i = 0; i < got; i++) this.complete(this.completions.token(i), this.completions.length(i));
    return got;
  }

  private complete(slot: number, length: number): void {
    const request = this.slots[slot];
    if (request === undefined) throw new Error(`slot ${slot} came back and was not in flight`);
    this.slots[slot] = undefined;
    const { write, sector, bytes } = request;
    const data = this.buffers + slot * SLOT_BYTES + HEADER_BYTES;
    const { bytes: memory } = this.guest;
    expect(memory[data + bytes], 'status of the request').to.equal(STATUS_OK);
    expect(length, 'bytes written by the device').to.equal(write ? 1 : bytes + 1);
    const now = memory.subarray(data, data + bytes);
    const wanted = this.disk.expected.subarray(sector * SECTOR, sector * SECTOR + bytes);
    expect(Buffer.compare(now, wanted), `data of sector ${sector}`).to.equal(0);
    this.done++;
  }

  /** Forgets a request that the device never returned. Its sectors hold the old or the new content. */
  forget(slot: number): void {
    const request = this.slots[slot];
    if (request === undefined) throw new Error(`slot ${slot} was handed back and was not in flight`);
    this.slots[slot] = undefined;
    if (!request.write) return;
    const image = readFileSync(this.disk.path);
    const start = request.sector * SECTOR;
    this.disk.expected.set(image.subarray(start, start + request.bytes), start);
  }

  release(): void {
    this.completions.free();
    this.guest.ram.free(this.buffers);
  }
}
