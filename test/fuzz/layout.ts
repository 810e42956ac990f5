import type { Region } from '../../src/index.js';
import { areaLayout } from '../../src/queue/queue.js';
import type { Config, GuestMap } from './config.js';

/** Bytes of the memory that the scenarios own; vring's arena lies behind it. */
export const FIXED = 0x140000;
export const ARENA = 0x400000;

/** Sentinel bytes around every area, region and table memory: other ones on either engine. */
export const GUARD = 64;
export const FILLERS = [0xa5, 0x16] as const;

/** Lengths of the regions that buffers lie in. The first three follow each other in guest memory, with guards between them in local memory; the last two adjoin in both. */
const CHUNKS = [96, 40, 160, 64, 64];
const HOLE = 32;

export interface Range {
  start: number;
  end: number;
}

const BASE: Record<GuestMap, bigint> = {
  low: 0x40_0000n,
  high: 0x12_3456_7890n,
  straddling: 2n ** 32n - 120n,
  top: 2n ** 64n - BigInt(CHUNKS.reduce((sum, bytes) => sum + bytes, HOLE)),
};

/** Where everything lies: the same on both engines. */
export class Layout {
  readonly areas: { descriptor: number; driver: number; device: number };
  readonly bytes: { descriptor: number; driver: number; device: number };
  readonly tables: { address: number; length: number };
  /** First guest address of the buffers, and how many bytes there are up to the end of the last one. */
  readonly guest: bigint;
  readonly span: number;
  /** Ranges without a hole in guest memory, as offsets from `guest`. */
  readonly stretches: Range[];
  readonly regions: Region[];
  /** What someone may write to. */
  readonly owned: Range[] = [];
  /** What nobody may touch. */
  readonly guards: Range[] = [];
  /** Local ranges of the regions, merged where they adjoin. */
  private readonly reachable: Range[] = [];
  readonly end: number;

  constructor(config: Config) {
    let at = 0;
    const take = (bytes: number, align: number, off: number) => {
      const start = Math.ceil((at + GUARD) / align) * align + off;
      this.guards.push({ start: at, end: start });
      this.owned.push({ start, end: start + bytes });
      at = start + bytes;
      return start;
    };
    const { descriptor, driver, device } = areaLayout(config.ring, config.size);
    // No better aligned than they have to be.
    this.areas = {
      descriptor: take(descriptor.bytes, 32, 16),
      driver: take(driver.bytes, 2 * driver.align, driver.align),
      device: take(device.bytes, 2 * device.align, device.align),
    };
    this.bytes = { descriptor: descriptor.bytes, driver: driver.bytes, device: device.bytes };
    const length = 16 * config.granules;
    this.tables = { address: take(length, 32, 16), length };
    // Rings and tables are where the driver says: guest addresses are local ones there.
    this.regions = this.owned
      .filter(({ start, end }) => end > start)
      .map(({ start, end }) => ({ guest: start, length: end - start, local: start }));
    this.guest = BASE[config.guest];
    let guest = this.guest;
    CHUNKS.forEach((bytes, i) => {
      if (i === CHUNKS.length - 2) guest += BigInt(HOLE);
      const local = i === CHUNKS.length - 1 ? at : take(bytes, 8, 3);
      if (local === at) {
        this.owned.push({ start: at, end: at + bytes });
        at += bytes;
      }
      this.regions.push({ guest, length: bytes, local });
      guest += BigInt(bytes);
    });
    this.span = Number(guest - this.guest);
    const hole = this.span - HOLE - CHUNKS[CHUNKS.length - 2] - CHUNKS[CHUNKS.length - 1];
    this.stretches = [
      { start: 0, end: hole },
      { start: hole + HOLE, end: this.span },
    ];
    this.guards.push({ start: at, end: at + GUARD });
    this.end = at + GUARD;
    if (this.end > FIXED) throw new Error(`the layout of ${this.end} bytes is too large`);
    for (const { start, end } of this.owned) {
      const last = this.reachable.at(-1);
      if (last?.end === start) last.end = end;
      else if (end > start) this.reachable.push({ start, end });
    }
  }

  /** True if a piece of local memory lies in the regions. */
  reaches(address: number, length: number): boolean {
    const { reachable } = this;
    for (let i = 0; i < reachable.length; i++)
      if (address >= reachable[i].start && address + length <= reachable[i].end) return true;
    return false;
  }
}
