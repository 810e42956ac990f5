import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DeviceQueue,
  type DriverQueue,
  Feature,
  type Host,
  loadEngine,
  type MemoryLike,
  VringError,
} from '../src/index.js';
import { ENGINES, type EngineName, forEachEngine, loader } from './support/engines.js';
import type { MoverData } from './support/mover.js';
import { refused } from './support/stage.js';
import { startWorker } from './support/worker.js';

const FEATURES = [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX];
const PAGE = 65536;

const bytes = (memory: MemoryLike) =>
  new Uint8Array(
    memory instanceof ArrayBuffer || memory instanceof SharedArrayBuffer ? memory : memory.buffer,
  );

/** Any bytes but 0, different from place to place. */
function litter(memory: MemoryLike, seed: number): void {
  const u8 = bytes(memory);
  for (let i = 0; i < u8.length; i++) u8[i] = 1 + ((Math.imul(i + seed, 2654435761) >>> 24) % 255);
}

/** Sees that nothing outside the ranges has changed since `before`. */
function untouched(memory: MemoryLike, before: Uint8Array, ranges: [start: number, end: number][]): void {
  const now = bytes(memory);
  let from = 0;
  for (const [start, end] of [...ranges, [before.length, before.length] as const].sort(
    (a, b) => a[0] - b[0],
  )) {
    if (Buffer.compare(now.subarray(from, start), before.subarray(from, start)) !== 0) {
      const at = now.subarray(from, start).findIndex((byte, i) => byte !== before[from + i]);
      throw new Error(`byte ${from + at} was written, which belongs to somebody else`);
    }
    from = Math.max(from, end);
  }
}

/** A driver and a device with everything that a session needs. */
class Session {
  readonly driver: DriverQueue;
  readonly device: DeviceQueue;
  readonly buffer: number;
  private token = 0;

  constructor(
    readonly driverHost: Host,
    readonly deviceHost = driverHost,
    options: { areas?: { descriptor: number; driver: number; device: number }; size?: number } = {},
  ) {
    const { size = 8, areas } = options;
    this.driver = driverHost.driverQueue({
      ring: 'split',
      size,
      features: FEATURES,
      indirect: { memory: 512 },
      ...(areas && { areas }),
    });
    this.device = deviceHost.deviceQueue({
      ring: 'split',
      size,
      features: FEATURES,
      areas: this.driver.areas,
    });
    this.buffer = driverHost.alloc(1024, 1);
  }

  private get u8(): Uint8Array {
    return new Uint8Array(this.driverHost.buffer);
  }

  /** A few buffers there and back, in bursts and alone; checks every byte. */
  run(rounds = 3): void {
    const { driver, device, buffer } = this;
    const burst = driver.createBurst(4, 12);
    const elements = device.createElements(4, 16);
    const completions = driver.createCompletions(4);
    for (let round = 0; round < rounds; round++) {
      const first = this.token;
      for (let i = 0; i < 3; i++) {
        const at = buffer + 100 * i;
        this.u8.fill(this.token, at, at + 40);
        burst
          .out(at, 10)
          .out(at + 10, 30)
          .in(at + 50, 20)
          .end(this.token++);
      }
      expect(driver.addBurst(burst)).to.equal(3);
      this.u8.fill(this.token, buffer + 300, buffer + 310);
      expect(driver.add([{ address: buffer + 300, length: 10 }], [], this.token++)).to.equal(true);
      expect(driver.kickPrepare()).to.equal(true);
      expect(device.availableBytes(1000, 1000)).to.deep.equal({ in: 60, out: 130 });
      expect(device.popBurst(elements, 3)).to.equal(3);
      for (let i = 0; i < 3; i++) {
        const p = elements.first(i);
        const out = elements.address(p);
        expect(this.u8.subarray(out, out + 40).every((byte) => byte === ((first + i) & 255))).to.equal(true);
        this.u8.fill(first + i + 77, elements.address(p + 2), elements.address(p + 2) + 20);
        elements.setWritten(i, 20);
      }
      const single = device.pop();
      expect(single?.out).to.deep.equal([{ address: buffer + 300, length: 10 }]);
      device.push({ id: single?.id as number }, 0);
      expect(device.pushBurst(elements)).to.equal(3);
      expect(device.shouldInterrupt()).to.equal(true);
      expect(driver.getBurst(completions)).to.equal(4);
      expect(completions.token(0)).to.equal(first + 3);
      for (let i = 0; i < 3; i++) {
        expect([completions.token(i + 1), completions.length(i + 1)]).to.deep.equal([first + i, 20]);
        const at = buffer + 100 * i + 50;
        expect(this.u8.subarray(at, at + 20).every((byte) => byte === ((first + i + 77) & 255))).to.equal(
          true,
        );
      }
      expect(driver.numFree).to.equal(driver.size);
      expect(driver.tableBytes).to.equal(0);
    }
    for (const records of [burst, elements, completions]) records.free();
  }

  end(): void {
    this.driver.release();
    this.device.release();
    this.driverHost.free(this.buffer);
  }
}

/** Memories that vring did not make. */
const kinds: Record<string, { engines: EngineName[]; make: (size: number) => MemoryLike }> = {
  'a WebAssembly.Memory': {
    engines: ['wasm', 'typescript'],
    make: (size) => new WebAssembly.Memory({ initial: Math.ceil(size / PAGE) }),
  },
  'a WebAssembly.Memory with a maximum': {
    engines: ['wasm', 'typescript'],
    make: (size) => new WebAssembly.Memory({ initial: Math.ceil(size / PAGE), maximum: 1000 }),
  },
  'a shared WebAssembly.Memory': {
    engines: ['wasm', 'typescript'],
    make: (size) => {
      const pages = Math.ceil(size / PAGE);
      return new WebAssembly.Memory({ initial: pages, maximum: pages + 1, shared: true });
    },
  },
  // Also with a length that is no multiple of a word.
  'an ArrayBuffer': { engines: ['typescript'], make: (size) => new ArrayBuffer(size + 3) },
  'a SharedArrayBuffer': { engines: ['typescript'], make: (size) => new SharedArrayBuffer(size + 1) },
};

describe('memory', () => {
  forEachEngine((load, engine) => {
    describe('that vring did not make', () => {
      for (const [kind, { engines, make }] of Object.entries(kinds))
        if (engines.includes(engine))
          it(`${kind}: any base and size, and not a byte beside it`, async () => {
            // One memory for all runs: each takes gigabytes of address space.
            const memory = make(2 * PAGE);
            await fc.assert(
              fc.asyncProperty(
                fc.nat(60000),
                fc.integer({ min: 8000, max: 70000 }),
                fc.option(fc.nat(1500), { nil: undefined }),
                fc.nat(),
                async (base, size, ring, seed) => {
                  litter(memory, seed);
                  const before = bytes(memory).slice();
                  const host = await load({ memory, base, size });
                  expect(host.memory).to.equal(memory);
                  // The ring itself may lie outside the arena, if the caller says where.
                  const at = base + size + 64;
                  const areas = ring !== undefined &&
                    at + 8192 < before.length && {
                      descriptor: Math.ceil((at + ring) / 16) * 16,
                      driver: Math.ceil((at + ring) / 16) * 16 + 200,
                      device: Math.ceil((at + ring) / 16) * 16 + 300,
                    };
                  const session = new Session(host, host, areas ? { areas } : {});
                  session.run();
                  session.end();
                  expect(host.used).to.equal(0);
                  const own: [number, number][] = [[base, base + size]];
                  if (areas)
                    own.push(
                      [areas.descriptor, areas.descriptor + 128],
                      [areas.driver, areas.driver + 22],
                      [areas.device, areas.device + 70],
                    );
                  untouched(memory, before, own);
                },
              ),
              { numRuns: 20 },
            );
          });

      it('a WebAssembly.Memory without a base is grown, and the old part is left alone', async () => {
        for (const options of [{ initial: 1 }, { initial: 1, maximum: 100 }, { initial: 0 }]) {
          const memory = new WebAssembly.Memory(options);
          litter(memory, 1);
          const before = bytes(memory).slice();
          const host = await load({ memory, size: 100000 });
          expect(memory.buffer.byteLength).to.equal(before.length + 2 * PAGE);
          const session = new Session(host);
          expect(session.buffer).to.be.at.least(before.length);
          session.run();
          session.end();
          untouched(memory, before, []);
        }
      });

      it('a shared one that grows: old and new queues reach the new part', async () => {
        const memory = new WebAssembly.Memory({ initial: 2, maximum: 8, shared: true });
        const host = await load({ memory, base: 0x1000, size: PAGE });
        const old = new Session(host);
        old.run();
        memory.grow(2);
        // Another engine, in the new part; its tables lie there.
        const other = await load({ memory, base: 2 * PAGE, size: 2 * PAGE });
        old.run();
        const mixed = new Session(other, host);
        mixed.run();
        const areas = { descriptor: 4 * PAGE - 512, driver: 4 * PAGE - 300, device: 4 * PAGE - 200 };
        memory.grow(1);
        const far = new Session(host, other, { areas: { ...areas, device: 5 * PAGE - 72 } });
        far.run();
        old.device.setRegions([{ guest: 0, length: 5 * PAGE, local: 0 }]);
        old.run();
        old.driver.add([{ address: 5 * PAGE - 8, length: 8 }], [], 1);
        expect(old.device.pop()?.out).to.deep.equal([{ address: 5 * PAGE - 8, length: 8 }]);
      });

      it('one of 4 GiB, with everything in its upper half', async () => {
        const memory = new WebAssembly.Memory({ initial: PAGE });
        const base = 2 ** 32 - 2 ** 20;
        const host = await load({ memory, base, size: 2 ** 20 - 100 });
        const session = new Session(host);
        expect(session.buffer).to.be.above(2 ** 31);
        session.run();
        const { driver, device } = session;
        // Up to the last byte, and no further.
        const last = { address: 2 ** 32 - 16, length: 16 };
        driver.add([last], [last], 1);
        expect(device.pop()).to.deep.include({ out: [last], in: [last] });
        driver.add([{ address: 0, length: 0xffffffff }], [], 2);
        expect(device.pop()?.out).to.deep.equal([{ address: 0, length: 0xffffffff }]);
        driver.add([{ address: 2 ** 32 - 16, length: 17 }], [], 3);
        refused(() => device.pop(), 'EFAULT', '0xfffffff0', 'length 17');
        // A ring at the very end.
        const areas = { descriptor: 2 ** 32 - 256, driver: 2 ** 32 - 128, device: 2 ** 32 - 72 };
        new Session(await load({ memory, base, size: 2 ** 20 - 1000 }), undefined, { areas }).run();
      });
    });

    it('full of rubbish makes no difference', async () => {
      const memory = new WebAssembly.Memory({ initial: 3 });
      bytes(memory).fill(0xff);
      const host = await load({ memory, base: 5, size: 3 * PAGE - 5 });
      const session = new Session(host);
      session.run();
      session.device.setRegions([]);
      session.driver.add(
        [{ address: 2 ** 64, length: 1 } as never].slice(1),
        [{ address: 2 ** 40, length: 1 }],
        1,
      );
      refused(() => session.device.pop(), 'EFAULT', '0x10000000000');
    });

    it('has room for two queues at a time', async () => {
      const host = await load({ size: 2 ** 17 });
      const [one, two] = [new Session(host), new Session(host, host, { size: 32 })];
      one.run();
      two.run();
      one.driver.add([{ address: one.buffer, length: 1 }], [], 1);
      expect(two.device.pop()).to.equal(undefined);
      // A fault of the one is none of the other.
      new Uint16Array(host.buffer, one.driver.areas.driver, 2)[1] = 1000;
      refused(() => one.device.pop(), 'EPROTO');
      two.run();
      two.end();
      one.device.reset();
      one.driver.reset();
      one.run();
      one.end();
      expect(host.used).to.equal(0);
    });

    it('that grows at any point changes nothing', async () => {
      // Everything that a driver and a device do, one step at a time; what each step comes to is noted.
      type World = { host: Host; driver: DriverQueue; device: DeviceQueue };
      const scenario = ({ host, driver, device }: World, note: (value: unknown) => void): (() => void)[] => {
        const buffer = host.alloc(512);
        const burst = driver.createBurst(4, 8);
        const elements = device.createElements(4, 8);
        const completions = driver.createCompletions(4);
        const view = () => new Uint8Array(host.buffer);
        const places = (pieces: readonly { address: number; length: number }[]) =>
          pieces.map(({ address, length }) => [address - buffer, length]);
        return [
          () => view().fill(1, buffer, buffer + 100),
          () => burst.out(buffer, 10),
          () => burst.out(buffer + 10, 20),
          () => burst.in(buffer + 100, 30),
          () => burst.end(11),
          () => burst.out(buffer + 200, 5),
          () => burst.end(12),
          () => note(burst.pending),
          () => note(driver.addBurst(burst)),
          () => note(driver.add([{ address: buffer, length: 1 }], [{ address: buffer, length: 9 }], 13)),
          () => note(driver.kickPrepare()),
          () => note([driver.numFree, driver.tableBytes, driver.inFlight]),
          () => note(device.availableBytes(100, 100)),
          () => note(device.popBurst(elements, 2)),
          () => note([0, 1].map((i) => [elements.id(i), elements.outCount(i), elements.inCount(i)])),
          () => note([elements.address(0) - buffer, elements.length(2), elements.first(1)]),
          () => note(device.rewind(1)),
          () => note(device.popBurst(elements, 1)),
          () => elements.setWritten(0, 0),
          () => note(device.pushBurst(elements)),
          () => note(device.shouldInterrupt()),
          () => note(device.pop()?.out.map(({ address }) => address - buffer)),
          () => device.unpop({ id: 2 }),
          () => note(places(device.pop()?.in ?? [])),
          () => device.fill({ id: 2 }, 9, 1),
          () => device.fill({ id: 0 }, 30, 0),
          () => device.flush(2),
          () => note(device.enableNotifications()),
          () => device.disableNotifications(),
          () => driver.disableCallbacks(),
          () => note(driver.moreUsed()),
          () => note(driver.enableCallbacksDelayed()),
          () => note(driver.enableCallbacks()),
          () => note(driver.poll(driver.enableCallbacksPrepare())),
          () => note(driver.getBuf()),
          () => note(driver.getBurst(completions)),
          () => note([0, 1].map((i) => [completions.token(i), completions.length(i)])),
          () => note(driver.stats()),
          () => note(device.stats()),
          () => note([driver.fault, device.fault, driver.broken]),
          () => note(driver.add([{ address: buffer, length: 1 }], [], 14)),
          () => device.setRegions([{ guest: 0, length: host.buffer.byteLength, local: 0 }]),
          () => note(device.pop()?.id),
          () => device.detach({ id: 2 }),
          () => note(driver.detachUnused()),
          () => device.reset(),
          () => note(driver.reset()),
          () => note([...view().subarray(driver.areas.device, driver.areas.device + 70)]),
          () => {
            const { words, tokens } = burst;
            words.set([buffer, 0, 4, 1 << 16]);
            tokens[0] = 15;
          },
          () => burst.commit(1),
          () => note(driver.addBurst(burst)),
          () => note(places(device.pop()?.out ?? [])),
          () => {
            const more = driver.createBurst(1, 1);
            more.free();
          },
        ];
      };

      const memory = new WebAssembly.Memory({ initial: 1 });
      const run = async (grow: (step: number) => boolean): Promise<unknown[]> => {
        // Every run in the same place, whatever the size of the memory by now.
        const host = await load({ memory, base: 0, size: PAGE });
        const driver = host.driverQueue({ ring: 'split', size: 8, features: FEATURES });
        const device = host.deviceQueue({ ring: 'split', size: 8, features: FEATURES, areas: driver.areas });
        const notes: unknown[] = [];
        let expected = 0;
        scenario({ host, driver, device }, (value) => notes.push(value)).forEach((step, i) => {
          if (grow(i)) memory.grow(1);
          step();
          expected = i + 1;
        });
        notes.push(expected);
        return notes;
      };
      const still = await run(() => false);
      const steps = still.at(-1) as number;
      expect(steps).to.be.above(50);
      for (let at = 0; at < steps; at++)
        expect(await run((step) => step === at), `growing before step ${at}`).to.deep.equal(still);
      expect(await run(() => true), 'growing before every step').to.deep.equal(still);
    });

    it('that grows in a callback changes nothing', async () => {
      const memory = new WebAssembly.Memory({ initial: 2 });
      const host = await load({ memory, base: 100, size: PAGE });
      let grown = 0;
      const grow = () => {
        grown++;
        memory.grow(1);
      };
      const driver = host.driverQueue({ ring: 'split', size: 8, features: FEATURES, notify: grow });
      const { areas } = driver;
      const device = host.deviceQueue({ ring: 'split', size: 8, features: FEATURES, areas, interrupt: grow });
      const elements = device.createElements(4);
      const address = host.alloc(64);
      for (let i = 0; i < 10; i++) {
        driver.add([{ address, length: 1 }], [{ address, length: 2 }], i);
        expect(driver.kick()).to.equal(true);
        expect(device.popBurst(elements)).to.equal(1);
        elements.setWritten(0, 2);
        expect(device.pushBurst(elements)).to.equal(1);
        expect(driver.getBuf()).to.deep.equal({ token: i, length: 2 });
      }
      expect(grown).to.equal(20);
      expect(memory.buffer.byteLength).to.equal(22 * PAGE);
    });

    describe('the arena', () => {
      it('hands out what is free, aligned and apart, and takes all of it back', async () => {
        const memory = new WebAssembly.Memory({ initial: 2 });
        type Op = { free: number } | { size: number; align: number };
        const ops: fc.Arbitrary<Op> = fc.oneof(
          fc.record({ free: fc.nat() }),
          fc.record({
            size: fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 5000 })),
            align: fc.nat(10).map((n) => 2 ** n),
          }),
        );
        await fc.assert(
          fc.asyncProperty(
            fc.nat(70000),
            fc.integer({ min: 1, max: 50000 }),
            fc.array(ops, { maxLength: 80, size: 'max' }),
            async (base, size, list) => {
              const host = await load({ memory, base, size });
              const taken: { start: number; size: number }[] = [];
              const sum = () => taken.reduce((bytes, block) => bytes + block.size, 0);
              for (const op of list) {
                if ('free' in op) {
                  if (taken.length === 0) continue;
                  const [{ start }] = taken.splice(op.free % taken.length, 1);
                  host.free(start);
                  refused(() => host.free(start), 'EINVAL', start, 'not allocated');
                } else {
                  let start: number;
                  try {
                    start = host.alloc(op.size, op.align);
                  } catch (error) {
                    expect((error as VringError).code).to.equal('ENOMEM');
                    // It told the truth: no gap is large enough.
                    const borders = [...taken].sort((a, b) => a.start - b.start);
                    let from = Math.max(base, 16);
                    for (const block of [...borders, { start: base + size, size: 0 }]) {
                      expect(Math.ceil(from / op.align) * op.align + op.size).to.be.above(block.start);
                      from = block.start + block.size;
                    }
                    continue;
                  }
                  expect(start % op.align).to.equal(0);
                  expect(start).to.be.at.least(base);
                  // Address 0 would look like none.
                  expect(start).to.be.above(0);
                  expect(start + op.size).to.be.at.most(base + size);
                  for (const block of taken)
                    expect(start + op.size <= block.start || block.start + block.size <= start).to.equal(
                      true,
                    );
                  taken.push({ start, size: op.size });
                }
                expect(host.used).to.equal(sum());
              }
              for (const { start } of taken) host.free(start);
              expect(host.used).to.equal(0);
              // In one piece again.
              const from = Math.max(base, 16);
              if (base + size > from) {
                expect(host.alloc(base + size - from, 1)).to.equal(from);
                refused(() => host.alloc(1, 1), 'ENOMEM', 'larger size');
              }
            },
          ),
          { numRuns: 30 },
        );
      });
    });
  });

  for (const driver of ENGINES)
    for (const device of ENGINES) {
      it(`two engines on one memory: ${driver} and ${device}`, async () => {
        for (const shared of [false, true]) {
          const memory = new WebAssembly.Memory(shared ? { initial: 4, maximum: 4, shared } : { initial: 4 });
          litter(memory, 3);
          const before = bytes(memory).slice();
          const one = await loader(driver)({ memory, base: 1001, size: PAGE });
          const two = await loader(device)({ memory, base: 2 * PAGE + 1, size: PAGE });
          const sessions = [new Session(one, two), new Session(two, one), new Session(one), new Session(two)];
          for (let i = 0; i < 3; i++) for (const session of sessions) session.run(1);
          for (const session of sessions) session.end();
          expect([one.used, two.used]).to.deep.equal([0, 0]);
          untouched(memory, before, [
            [1001, 1001 + PAGE],
            [2 * PAGE + 1, 3 * PAGE + 1],
          ]);
        }
      });

      it(`two workers on a shared memory: ${driver} driver, ${device} device`, async function () {
        this.timeout(300_000);
        const size = 64;
        const data = 0x4000;
        const memory = new WebAssembly.Memory({ initial: 8, maximum: 8, shared: true });
        const common = {
          memory,
          areas: { descriptor: 0x1000, driver: 0x2000, device: 0x3000 },
          size,
          data,
          count: 70000,
          doze: 0x100,
          bytes: 2 * PAGE,
        };
        const start = (more: Pick<MoverData, 'role' | 'engine' | 'base'>) => {
          const workerData: MoverData = { ...common, ...more };
          const worker = startWorker(new URL('./support/mover.ts', import.meta.url), { workerData });
          return new Promise<string>((resolve, reject) => {
            worker.once('message', (verdict) => {
              resolve(verdict);
              void worker.terminate();
            });
            worker.once('error', reject);
          });
        };
        const verdicts = await Promise.all([
          start({ role: 'driver', engine: driver, base: 2 * PAGE }),
          start({ role: 'device', engine: device, base: 5 * PAGE }),
        ]);
        expect(verdicts).to.deep.equal(['ok', 'ok']);
      });
    }

  describe('the choice of the engine', () => {
    const session = async (host: Host) => {
      new Session(host).run();
      return [host.name, host.reason];
    };

    it('is WebAssembly, and says so', async () => {
      expect(await session(await loadEngine())).to.deep.equal(['wasm', 'WebAssembly is allowed here']);
      expect(await session(await loadEngine({ engine: 'wasm' }))).to.deep.equal(['wasm', 'asked for']);
      expect(await session(await loadEngine({ engine: 'typescript' }))).to.deep.equal([
        'typescript',
        'asked for',
      ]);
    });

    it('is TypeScript for a plain buffer, and says so', async () => {
      for (const memory of [new ArrayBuffer(2 * PAGE), new SharedArrayBuffer(2 * PAGE)]) {
        const host = await loadEngine({ memory });
        expect(await session(host)).to.deep.equal(['typescript', 'the memory is a plain buffer']);
        const error = await loadEngine({ memory, engine: 'wasm' }).catch((thrown) => thrown);
        expect(error).to.be.instanceOf(VringError);
        expect(error.message).to.match(
          /^EINVAL: the WebAssembly engine needs a WebAssembly.Memory.*typescript/,
        );
      }
    });

    it('refuses memory that is none, whatever the engine', async () => {
      for (const engine of ['auto', 'wasm', 'typescript'] as const)
        for (const memory of [
          {},
          null,
          new Uint8Array(8),
          new DataView(new ArrayBuffer(8)),
          'x',
          new ArrayBuffer(0),
        ]) {
          const error = await loadEngine({ engine, memory: memory as never }).catch((thrown) => thrown);
          expect(error, `${engine} ${String(memory)}`).to.be.instanceOf(VringError);
          expect(error.code).to.equal('EINVAL');
          expect(error.message).to.match(/memory/i);
        }
    });

    /** Runs a script where WebAssembly is not what it is here; it prints what it finds. */
    async function elsewhere(stub: string): Promise<string[]> {
      const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
      const script = `
        // Imported first: the loader needs WebAssembly itself.
        const { loadEngine, VringError } = await import(${url('../src/index.ts')});
        ${stub}
        const show = async (options) => {
          try {
            const host = await loadEngine({ size: 65536, ...options });
            const driver = host.driverQueue({ ring: 'split', size: 4 });
            const device = host.deviceQueue({ ring: 'split', size: 4, areas: driver.areas });
            driver.add([{ address: 64, length: 8 }], [], 5);
            device.push(device.pop(), 0);
            console.log(host.name + ': ' + host.reason + ': ' + driver.getBuf().token);
          } catch (error) {
            console.log(error instanceof VringError ? error.message : 'not a VringError: ' + error);
          }
        };
        await show({});
        await show({ engine: 'wasm' });
        await show({ shared: true });
        await show({ engine: 'typescript' });
        globalThis.allow?.();
        await show({});
      `;
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--import', 'tsx', '--input-type=module', '-e', script],
        { cwd: fileURLToPath(new URL('..', import.meta.url)) },
      );
      return stdout.trimEnd().split('\n');
    }

    it('is TypeScript where there is no WebAssembly', async () => {
      const lines = await elsewhere('delete globalThis.WebAssembly;');
      expect(lines[0]).to.equal('typescript: there is no WebAssembly here: 5');
      expect(lines[1]).to.match(/^ENOTSUP: there is no WebAssembly here: use engine 'typescript'/);
      expect(lines[2]).to.equal('typescript: there is no WebAssembly here: 5');
      expect(lines[3]).to.equal('typescript: asked for: 5');
    });

    it('is TypeScript where WebAssembly may not be compiled, until it may', async () => {
      const lines = await elsewhere(`
        const { compile } = WebAssembly;
        WebAssembly.compile = async () => { throw new WebAssembly.CompileError('blocked by the policy'); };
        globalThis.allow = () => { WebAssembly.compile = compile; };
      `);
      expect(lines[0]).to.match(
        /^typescript: ENOTSUP: WebAssembly cannot be compiled here .*blocked by the policy.*: 5$/,
      );
      expect(lines[1]).to.match(/^ENOTSUP: WebAssembly cannot be compiled here .*blocked by the policy/);
      expect(lines[2]).to.match(/^typescript: ENOTSUP: .*blocked by the policy.*: 5$/);
      expect(lines[3]).to.equal('typescript: asked for: 5');
      expect(lines[4]).to.equal('wasm: WebAssembly is allowed here: 5');
    });
  });

  describe('a ready module', () => {
    const built = async (name: string) =>
      WebAssembly.compile(await readFile(new URL(`../build/${name}`, import.meta.url)));

    it('is used in place of the inlined bytes, as often as one likes', async () => {
      const module = await built('vring.wasm');
      for (let i = 0; i < 3; i++) {
        const host = await loadEngine({ module, size: 2 ** 17 });
        expect(host.name).to.equal('wasm');
        new Session(host).run();
      }
      const shared = await loadEngine({
        module: await built('vring.shared.wasm'),
        size: 2 ** 17,
        shared: true,
      });
      expect(shared.buffer).to.be.instanceOf(SharedArrayBuffer);
      new Session(shared).run();
    });

    it('is refused if it is another one, or for another kind of memory', async () => {
      const empty = new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
      const [plain, shared] = [await built('vring.wasm'), await built('vring.shared.wasm')];
      for (const engine of ['auto', 'wasm'] as const)
        for (const [options, text] of [
          [{ module: empty }, 'vring.wasm'],
          [{ module: shared }, 'vring.wasm'],
          [{ module: plain, shared: true }, 'vring.shared.wasm'],
        ] as const) {
          const error = await loadEngine({ engine, ...options }).catch((thrown) => thrown);
          expect(error).to.be.instanceOf(VringError);
          expect(error.code).to.equal('EINVAL');
          expect(error.message).to.contain('does not fit the memory');
          expect(error.message).to.contain(`pass a compiled ${text} of this version`);
        }
    });
  });
});
