import * as L from '../../assembly/abi/layout.js';
import type {
  DeviceRing,
  DriverRing,
  Engine,
  RingFormat,
  TranslationStrategy,
} from '../../src/engine/engine.js';
import { type Region, Regions } from '../../src/engine/regions.js';
import type { LinearMemory } from '../../src/memory.js';

// Where things are in a memory of RIG_BYTES, with room for the largest ring. Guest addresses are local ones
// unless a test says otherwise. What lies from ARENA on is for an engine that keeps state in the memory.
export const DESC = 0x100000;
export const DRIVER = 0x200000;
export const DEVICE = 0x220000;
export const TABLES = 0x280000;
const SEGMENTS = 0x300000;
const TOKENS = 0x380000;
const ELEMENTS = 0x3a0000;
const PIECES = 0x420000;
const COMPLETIONS = 0x4a0000;
export const DATA = 0x500000;
export const ARENA = 0x600000;
export const RIG_BYTES = 0x900000;

export interface RigOptions {
  ring: RingFormat;
  size: number;
  eventIdx?: boolean;
  inOrder?: boolean;
  batches?: boolean;
  indirect?: boolean;
  strict?: boolean;
  /** Bytes for tables. */
  tables?: number;
  regions?: Region[];
  translation?: TranslationStrategy;
}

export type Part = [address: number | bigint, length: number, writable?: boolean];

export interface Popped {
  id: number;
  out: number[][];
  in: number[][];
}

/** Both sides of a queue of one engine, at the interface of the engines. */
export class RingRig {
  driver: DriverRing;
  device: DeviceRing;
  readonly view: DataView;
  readonly size: number;

  constructor(
    private readonly engine: Engine,
    readonly memory: LinearMemory,
    private readonly options: RigOptions,
  ) {
    this.size = options.size;
    this.view = new DataView(memory.buffer);
    this.driver = this.newDriver();
    this.device = this.newDevice();
  }

  private get common() {
    const { ring, size, eventIdx = false, inOrder = false, indirect = false } = this.options;
    const areas = { descriptor: DESC, driver: DRIVER, device: DEVICE };
    return { ring, size, areas, eventIdx, inOrder, indirect };
  }

  /** Clears the ring. */
  newDriver(): DriverRing {
    const { strict = false, tables = 4096 } = this.options;
    return this.engine.driverRing({
      ...this.common,
      strict,
      addressOffset: 0n,
      policy: { policy: 'always', threshold: 1 },
      cache: { strategy: 'none', descriptors: 4, bound: 0, prefill: 0 },
      tables: { address: TABLES, length: tables },
    });
  }

  newDevice(): DeviceRing {
    const list = this.options.regions ?? [{ guest: 0, length: RIG_BYTES, local: 0 }];
    const { batches = true, translation = 'lazy' } = this.options;
    const regions = new Regions(list, RIG_BYTES);
    return this.engine.deviceRing({ ...this.common, batches, regions, translation });
  }

  /** Adds buffers, each a list of segments, with tokens from `token` on. */
  add(buffers: Part[][], token: number): number {
    const { view } = this;
    let s = SEGMENTS;
    for (const [i, buffer] of buffers.entries()) {
      view.setUint32(TOKENS + i * L.TOKEN_BYTES, token + i, true);
      for (const [k, [address, length, writable]] of buffer.entries()) {
        const more = k + 1 < buffer.length ? L.DESC_F_NEXT : 0;
        view.setBigUint64(s + L.SEGMENT_ADDRESS, BigInt(address), true);
        view.setUint32(s + L.SEGMENT_LENGTH, length, true);
        view.setUint16(s + L.SEGMENT_FLAGS, more | (writable ? L.DESC_F_WRITE : 0), true);
        view.setUint16(s + L.SEGMENT_COUNT, k === 0 ? buffer.length : 0, true);
        s += L.SEGMENT_BYTES;
      }
    }
    return this.driver.addBurst(SEGMENTS, TOKENS, buffers.length);
  }

  /** Pops and spells out what came, or the negative result. */
  pop(max = 64, capacity = 4096): number | Popped[] {
    const { view } = this;
    const n = this.device.popBurst(ELEMENTS, PIECES, capacity, max);
    if (n < 0) return n;
    return Array.from({ length: n }, (_, i) => {
      const e = ELEMENTS + i * L.ELEMENT_BYTES;
      const first = view.getUint32(e + L.ELEMENT_FIRST, true);
      const out = view.getUint16(e + L.ELEMENT_OUT, true);
      const count = out + view.getUint16(e + L.ELEMENT_IN, true);
      const pieces = Array.from({ length: count }, (_, k) => {
        const p = PIECES + (first + k) * L.PIECE_BYTES;
        return [view.getUint32(p + L.PIECE_ADDRESS, true), view.getUint32(p + L.PIECE_LENGTH, true)];
      });
      return { id: view.getUint32(e + L.ELEMENT_ID, true), out: pieces.slice(0, out), in: pieces.slice(out) };
    });
  }

  push(entries: [id: number, written: number][]): number {
    for (const [i, [id, written]] of entries.entries()) {
      this.view.setUint32(ELEMENTS + i * L.ELEMENT_BYTES + L.ELEMENT_ID, id, true);
      this.view.setUint32(ELEMENTS + i * L.ELEMENT_BYTES + L.ELEMENT_WRITTEN, written, true);
    }
    return this.device.pushBurst(ELEMENTS, entries.length);
  }

  /** Completions as [token, length], or the negative result. */
  get(max = 64): number | [token: number, length: number][] {
    const n = this.driver.getBurst(COMPLETIONS, max);
    return n < 0 ? n : Array.from({ length: n }, (_, i) => this.completion(i));
  }

  detachUnused(): [token: number, length: number] | undefined {
    return this.driver.detachUnused(COMPLETIONS) === 1 ? this.completion(0) : undefined;
  }

  private completion(i: number): [number, number] {
    const c = COMPLETIONS + i * L.COMPLETION_BYTES;
    return [
      this.view.getUint32(c + L.COMPLETION_TOKEN, true),
      this.view.getUint32(c + L.COMPLETION_LENGTH, true),
    ];
  }

  /** Everything that both sides share: the three areas and the tables. */
  bytes(): { descriptor: Uint8Array; driver: Uint8Array; device: Uint8Array; tables: Uint8Array } {
    const { ring, size, tables = 4096 } = this.options;
    const part = (start: number, length: number) => new Uint8Array(this.memory.buffer, start, length);
    return {
      descriptor: part(DESC, size * L.DESC_BYTES),
      driver: part(DRIVER, ring === 'packed' ? L.EVENT_BYTES : 6 + 2 * size),
      device: part(DEVICE, ring === 'packed' ? L.EVENT_BYTES : 6 + 8 * size),
      tables: part(TABLES, tables),
    };
  }

  /** Those bytes, to be put back with `restore` after a new driver has cleared them. */
  copy(): Uint8Array[] {
    return Object.values(this.bytes()).map((area) => area.slice());
  }

  restore(copy: Uint8Array[]): void {
    for (const [i, area] of Object.values(this.bytes()).entries()) area.set(copy[i]);
  }

  fault(side: 'driver' | 'device'): [number, bigint, bigint] {
    const { fault, faultA, faultB } = this[side];
    return [fault, faultA, faultB];
  }

  counters(side: 'driver' | 'device'): number[] {
    return Array.from({ length: L.COUNTERS }, (_, i) => this[side].counter(i));
  }

  /** Descriptor `index` (of the ring or of a table) as a peer that need not play by the rules writes it. */
  forge(table: number, index: number, addr: number | bigint, len: number, w12: number, w14: number): void {
    const d = table + index * L.DESC_BYTES;
    this.view.setBigUint64(d + L.DESC_ADDR, BigInt(addr), true);
    this.view.setUint32(d + L.DESC_LEN, len, true);
    this.view.setUint16(d + 12, w12, true);
    this.view.setUint16(d + 14, w14, true);
  }
}

/** A reproducible source of numbers below `n`. */
export function randomness(seed: number): (n: number) => number {
  let state = seed >>> 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % n;
  };
}
