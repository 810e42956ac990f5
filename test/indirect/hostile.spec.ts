// Indirect tables that a peer writes to, that run out, and that come back in any order while the strategy changes.

import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DeviceQueue,
  type DriverQueue,
  type Element,
  Feature,
  type Host,
  type RingFormat,
  type TableOptions,
} from '../../src/index.js';
import { runs, tableOptions } from '../support/choices.js';
import { forEachEngine, type Load } from '../support/engines.js';

const SIZE = 16;
const STRATEGIES = ['none', 'slab', 'slab-bulk', 'list'] as const;
const AREAS = { descriptor: 0x100, driver: 0x400, device: 0x600 };
const TABLES = 0x1000;
const TABLES_MAX = 0x1000;
const DATA = 0x4000;
const ARENA = 0x10000;
const FILLER = 0xa5;
/** Where the device finds address 0, if not at 0. */
const ELSEWHERE = 0x12_0000_0000;

interface Options {
  tables: TableOptions;
  /** Bytes of table memory. */
  bytes: number;
  offset?: number;
}

/** Both sides of a ring, with the tables in memory that is watched. */
class Rig {
  private readonly u8: Uint8Array;
  readonly u32: Uint32Array;
  /** What the device has, in the order in which it took it. */
  readonly held: Element[] = [];
  /** Tokens of what is with the device, and how many segments each has. */
  readonly segments = new Map<number, number>();
  private next = 0;

  private constructor(
    readonly host: Host,
    readonly driver: DriverQueue,
    readonly device: DeviceQueue,
    private readonly bytes: number,
    private readonly offset: number,
  ) {
    this.u8 = new Uint8Array(host.buffer);
    this.u32 = new Uint32Array(host.buffer);
    this.u8.fill(FILLER, TABLES - 0x100, TABLES).fill(FILLER, TABLES + bytes, TABLES + TABLES_MAX + 0x100);
  }

  static async create(load: Load, ring: RingFormat, { tables, bytes, offset = 0 }: Options): Promise<Rig> {
    const host = await load({ memory: new WebAssembly.Memory({ initial: 4 }), base: ARENA, size: 2 * ARENA });
    const features = [Feature.VERSION_1, Feature.INDIRECT_DESC];
    const indirect = { tables, memory: { address: TABLES, length: bytes } };
    const options = { ring, size: SIZE, features };
    const driver = host.driverQueue({ ...options, areas: AREAS, indirect, addressOffset: offset });
    const { descriptor, driver: avail, device: used } = AREAS;
    const device = host.deviceQueue({
      ...options,
      areas: { descriptor: descriptor + offset, driver: avail + offset, device: used + offset },
      regions: [{ guest: offset, length: ARENA, local: 0 }],
    });
    return new Rig(host, driver, device, bytes, offset);
  }

  get tables() {
    return this.driver.stats().tables;
  }

  private get memory(): Uint8Array {
    return this.u8.slice(TABLES, TABLES + this.bytes);
  }

  /** Adds as many of some buffers of so many segments each as fit, and has the device take them. */
  add(...counts: number[]): number {
    const { driver, offset } = this;
    const burst = driver.createBurst(counts.length, 256);
    const part = (token: number, i: number) => ({ address: DATA + ((token + i) % 64) * 32, length: 1 + i });
    for (const [n, count] of counts.entries()) {
      for (let i = 0; i < count; i++) {
        const { address, length } = part(this.next + n, i);
        if (i < count / 2) burst.out(address + offset, length);
        else burst.in(address + offset, length);
      }
      burst.end(this.next + n);
    }
    const before = this.memory;
    const known = new Set(driver.save().buffers.map(({ token }) => token));
    const added = driver.addBurst(burst);
    burst.free();
    // Nothing was written to table memory but the tables that were asked for.
    for (const { token, table, segments } of driver.save().buffers)
      if (!known.has(token) && table !== 0)
        before.set(this.u8.subarray(table, table + 16 * segments), table - TABLES);
    expect(Buffer.compare(this.memory, before), 'other bytes').to.equal(0);
    for (let i = 0; i < added; i++) {
      const element = this.device.pop() as Element;
      const parts = Array.from({ length: counts[i] }, (_, n) => part(this.next, n));
      expect([...element.out, ...element.in]).to.deep.equal(parts);
      this.held.push(element);
      this.segments.set(this.next++, counts[i]);
    }
    return added;
  }

  /** Overwrites all table memory, as a device can at any time. */
  scribble(seed: number): void {
    const { bytes } = this;
    const values = [
      0xffffffff,
      0,
      1,
      0xfffffffe,
      TABLES,
      TABLES + bytes,
      ...Array.from({ length: 8 }, (_, i) => TABLES + ((seed * 16 + i * 48) % (bytes + 16))),
      ...Array.from({ length: 8 }, (_, i) => (seed + 3 * i) % (bytes / 16 + 2)),
    ];
    for (let i = 0; i < bytes / 4; i++)
      this.u32[TABLES / 4 + i] = values[seed % 2 ? seed % values.length : (seed + i) % values.length];
  }

  push(index: number): void {
    if (this.held.length > 0) this.device.push(this.held.splice(index % this.held.length, 1)[0], 0);
  }

  /** Takes back what there is. */
  get(): number[] {
    const before = this.memory;
    const tokens: number[] = [];
    for (let got = this.driver.getBuf(); got; got = this.driver.getBuf()) tokens.push(got.token);
    expect(Buffer.compare(this.memory, before), 'a table that came back').to.equal(0);
    for (const token of tokens) expect(this.segments.delete(token), `token ${token}`).to.equal(true);
    return tokens;
  }

  reset(): void {
    this.device.reset();
    const tokens = this.driver.reset().sort((a, b) => a - b);
    expect(tokens).to.deep.equal([...this.segments.keys()]);
    this.segments.clear();
    this.held.length = 0;
  }

  /** Tables lie in their memory, apart, and are as many as the counts say. */
  check(): void {
    const { bytes, driver } = this;
    const { buffers } = driver.save();
    const taken = buffers.filter(({ table }) => table !== 0).sort((a, b) => a.table - b.table);
    let end = TABLES;
    for (const { table, room, segments } of taken) {
      expect(table % 16).to.equal(0);
      expect(table, 'apart').to.be.at.least(end);
      expect(room).to.be.at.least(segments);
      end = table + 16 * room;
    }
    expect(end, 'inside').to.be.at.most(TABLES + bytes);
    const { hits, misses, returned, inFlight, memory } = this.tables;
    expect(inFlight).to.equal(taken.length);
    expect(hits + misses).to.equal(returned + inFlight);
    expect(driver.tableBytes).to.equal(taken.reduce((sum, { segments }) => sum + 16 * segments, 0));
    expect(memory).to.be.within(0, bytes);
    expect(buffers.map(({ token }) => token)).to.have.members([...this.segments.keys()]);
    for (const [from, to] of [
      [TABLES - 0x100, TABLES],
      [TABLES + bytes, TABLES + TABLES_MAX + 0x100],
    ])
      expect(this.u8.subarray(from, to).every((byte) => byte === FILLER)).to.equal(true);
  }

  /** The end: everything is back. */
  end(): void {
    const { driver, device, host } = this;
    while (this.held.length > 0) this.push(this.next++ * 7);
    this.get();
    this.check();
    driver.trimTables();
    expect(this.tables).to.deep.include({ inFlight: 0, length: 0, memory: 0 });
    expect(driver.numFree).to.equal(SIZE);
    driver.release();
    device.release();
    expect(host.used).to.equal(0);
  }
}

/** Ways in which a number of buffers can come back. */
const ORDERS: Record<string, (n: number) => number[]> = {
  'as they came': (n) => Array.from({ length: n }, () => 0),
  'the other way round': (n) => Array.from({ length: n }, (_, i) => n - 1 - i),
  mixed: (n) => Array.from({ length: n }, (_, i) => 5 * i + 3),
};

type Step = [kind: (typeof STEPS)[number], a: number, b: number];
const STEPS = [
  'add',
  'add',
  'burst',
  'burst',
  'push',
  'push',
  'push',
  'get',
  'trim',
  'set',
  'reset',
] as const;

forEachEngine((load) => {
  for (const ring of ['split', 'packed'] as const)
    describe(`indirect tables of a ${ring} ring and a hostile device`, () => {
      for (const strategy of STRATEGIES)
        it(`${strategy}: whatever is written to tables, in flight or cached, and when, changes nothing`, async () => {
          await fc.assert(
            fc.asyncProperty(
              tableOptions,
              fc.oneof(
                fc.constantFrom(0, 16, 32, 48, 64, 128),
                fc.nat(TABLES_MAX / 16).map((n) => 16 * n),
              ),
              fc.array(fc.tuple(fc.constantFrom(...STEPS), fc.nat(999), fc.nat(999)), {
                maxLength: 80,
                size: 'max',
              }) as fc.Arbitrary<Step[]>,
              fc.array(tableOptions, { minLength: 1, maxLength: 3 }),
              async (tables, bytes, steps, others) => {
                const rig = await Rig.create(load, ring, { tables: { ...tables, strategy }, bytes });
                const { driver } = rig;
                for (const [kind, a, b] of steps) {
                  if (bytes > 0) rig.scribble(a + b);
                  const { numFree } = driver;
                  if (kind === 'add') {
                    const failed = driver.stats().tableFailed;
                    // Full is only what has no table and is too long without.
                    if (rig.add(1 + (a % SIZE)) === 0 && numFree > 0) {
                      expect(1 + (a % SIZE)).to.be.above(numFree);
                      expect(driver.stats().tableFailed).to.equal(failed + 1);
                    }
                  } else if (kind === 'burst')
                    rig.add(...Array.from({ length: 1 + (a % 7) }, (_, i) => 1 + ((b + i * a) % 6)));
                  else if (kind === 'push') rig.push(a);
                  else if (kind === 'get') rig.get();
                  else if (kind === 'trim') driver.trimTables(a % 4);
                  else if (kind === 'set') driver.setTables(others[a % others.length]);
                  else if (b % 4 === 0) rig.reset();
                  rig.check();
                }
                rig.end();
              },
            ),
            runs(15),
          );
        });

      for (const from of STRATEGIES)
        for (const to of STRATEGIES)
          it(`from ${from} to ${to} with tables in flight, which come back in any order`, async () => {
            for (const order of Object.values(ORDERS)) {
              const rig = await Rig.create(load, ring, {
                tables: { strategy: from, descriptors: 4, prefill: from === 'list' ? 2 : 0 },
                bytes: TABLES_MAX,
              });
              expect(rig.add(2, 3, 4, 5)).to.equal(4);
              rig.driver.setTables({ strategy: to, descriptors: 6, bound: 3 });
              rig.scribble(2);
              expect(rig.add(6, 2, 7, 9)).to.equal(4);
              rig.driver.setTables({ strategy: from, descriptors: 2 });
              rig.scribble(5);
              expect(rig.add(2, 5)).to.equal(2);
              rig.check();
              const { length } = rig.tables;
              for (const index of order(10)) {
                rig.push(index);
                rig.scribble(index);
                expect(rig.get()).to.have.length(1);
                rig.check();
              }
              // Of ten tables the list has the one that was taken from it as it is now, and fits.
              expect(rig.tables.length - length).to.equal(from === 'list' ? 1 : 0);
              rig.end();
            }
          });

      for (const strategy of STRATEGIES)
        it(`${strategy}: memory that is exhausted serves again as soon as tables come back`, async () => {
          for (const bytes of [0, 16, 32, 48, 64, 128, 256]) {
            const rig = await Rig.create(load, ring, { tables: { strategy, descriptors: 4 }, bytes });
            const { driver } = rig;
            for (let round = 1; round <= 5; round++) {
              const { tableFailed, full, indirect } = driver.stats();
              while (rig.add(4) === 1) rig.check();
              const stats = driver.stats();
              expect(stats.tables.inFlight, `tables in ${bytes} bytes`).to.equal(Math.floor(bytes / 64));
              expect(stats.indirect - indirect).to.equal(stats.tables.inFlight);
              expect(stats.full).to.equal(full + 1);
              // A direct chain for each that found no table; the last one did not fit either, if it was tried.
              const direct = rig.held.length - stats.tables.inFlight;
              expect(stats.tableFailed - tableFailed).to.equal(direct + (driver.numFree > 0 ? 1 : 0));
              expect(driver.numFree).to.equal(SIZE - stats.tables.inFlight - 4 * direct);
              // One after the other, the last one first: its place can be had again at once.
              for (const { id } of [...rig.held].reverse()) {
                rig.push(rig.held.findIndex((element) => element.id === id));
                rig.get();
                rig.check();
              }
              expect(rig.tables.inFlight).to.equal(0);
            }
            rig.end();
          }
        });

      for (const offset of [0, ELSEWHERE])
        it(`how long a table is, and where it goes, is what the driver remembers (addresses ${offset ? 'mapped' : 'as they are'})`, async () => {
          const rig = await Rig.create(load, ring, {
            tables: { strategy: 'list', descriptors: 4, bound: 8 },
            bytes: TABLES_MAX,
            offset,
          });
          for (const order of [...Object.values(ORDERS), ...Object.values(ORDERS)]) {
            rig.driver.trimTables();
            // The cache is for 2, 4 and 3; the others are of the general allocator.
            expect(rig.add(2, 5, 4, 9, 3, 16)).to.equal(6);
            const large = rig.driver.save().buffers.filter(({ segments }) => segments > 4);
            expect(large.map(({ room }) => room).sort((a, b) => a - b)).to.deep.equal([8, 16, 16]);
            for (const index of order(6)) {
              // The addresses and lengths of all descriptors: what a driver must not go by.
              for (let slot = 0; slot < SIZE; slot++)
                rig.u32.set([TABLES + 16 * slot, 0, 16 * (index + 1)], (AREAS.descriptor >> 2) + 4 * slot);
              rig.scribble(index);
              rig.push(index);
              expect(rig.get()).to.have.length(1);
              rig.check();
            }
            expect(rig.tables).to.deep.include({ length: 3, inFlight: 0 });
            // Three tables of four, and nothing of the others when their pages are given back.
            rig.driver.trimTables(3);
            expect(rig.tables.memory).to.equal(256);
          }
          rig.end();
        });

      it('a link is never in a table: one that lies in the list is not written to, nor read', async () => {
        const rig = await Rig.create(load, ring, {
          tables: { strategy: 'list', descriptors: 4 },
          bytes: 0x400,
        });
        rig.add(2, 3, 4);
        for (let i = 0; i < 3; i++) rig.push(1);
        rig.scribble(7);
        // `get` and `add` compare every byte of the table memory.
        expect(rig.get()).to.have.length(3);
        expect(rig.tables.length).to.equal(3);
        const places: number[][] = [];
        for (const seed of [1, 2, 3, 4]) {
          rig.scribble(seed);
          expect(rig.add(4, 4, 4)).to.equal(3);
          places.push(rig.driver.save().buffers.map(({ table }) => table));
          rig.scribble(seed + 1);
          for (let i = 0; i < 3; i++) rig.push(2 - i);
          rig.get();
          rig.check();
        }
        // The same three tables all the time.
        for (const three of places) expect(three).to.have.members(places[0]);
        expect(rig.tables).to.deep.include({ misses: 3, refills: 3, hits: 12 });
        rig.end();
      });
    });
});
